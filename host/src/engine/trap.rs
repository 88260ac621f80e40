//! From the error of a call to the named reason on the delivery's record.

use wasmtime::component::ResourceTableError;
use wasmtime::{PoolConcurrencyLimitError, Trap, WasmBacktrace};
use wasmtime_wasi::I32Exit;

use super::answer;
use super::epoch::Stopped;
use super::limits::{Limiter, Refused};
use super::output::Output;
use crate::verdict::{Reason, Verdict};

/// How far below zero a stack may reach at once. More than any guest's whole stack, and little of the address space.
const LARGEST_FRAME_BYTES: u64 = 16 * 1024 * 1024;
const STACK_MESSAGE: &str = "calls were nested deeper than the stack allows";

/// The context of an error that came while the instance was made.
#[derive(Debug, thiserror::Error)]
#[error("no instance could be made")]
pub(super) struct NotInstantiated;

/// What the error of a call says about the run.
pub(super) fn verdict(error: &wasmtime::Error, limiter: &Limiter, output: &Output) -> Verdict {
    if let Some(Stopped(reason)) = error.downcast_ref::<Stopped>() {
        return Verdict::Aborted(*reason);
    }
    if error.is::<PoolConcurrencyLimitError>() {
        return Verdict::HostFault { message: format!("no free instance in the pool: {error:#}") };
    }
    if error.is::<NotInstantiated>() && limiter.refused.is_none() && !is_of_the_guest(error) {
        return Verdict::HostFault { message: answer::message(format!("{error:#}")) };
    }
    let (reason, message) = reason(error, limiter, output);
    Verdict::Trapped { reason, message: answer::message(message) }
}

/// Whether guest code was running: a component's start functions run while its instance is made.
fn is_of_the_guest(error: &wasmtime::Error) -> bool {
    error.is::<Trap>() || error.is::<WasmBacktrace>()
}

fn reason(error: &wasmtime::Error, limiter: &Limiter, output: &Output) -> (Reason, String) {
    // wasmtime has no public type for these; tests with real guests hold the texts.
    let text = format!("{error:#}");
    if text.contains("fuel allocated for hostcalls has been exhausted") {
        return (Reason::HostCallLimit, "passed more data to one host call than `host_call_data` allows".to_owned());
    }
    if text.contains("store handle limit exceeded") || matches!(error.downcast_ref(), Some(ResourceTableError::Full)) {
        return (Reason::HandleLimit, "held more resource handles than `handles` allows".to_owned());
    }
    match limiter.refused {
        Some(Refused::Memory { desired }) => {
            return (Reason::MemoryLimit, format!("asked for {desired} bytes of memory, more than `memory` allows"));
        }
        Some(Refused::Table { desired }) => {
            return (Reason::TableLimit, format!("asked for {desired} table elements, more than `table_elements` allows"));
        }
        Some(Refused::Held { desired }) => {
            return (Reason::MemoryLimit, format!("put {desired} bytes into events, more than `memory` allows"));
        }
        None => {}
    }
    if let Some(panic) = output.panic_text() {
        return (Reason::Panic, panic);
    }
    if let Some(I32Exit(code)) = error.downcast_ref::<I32Exit>() {
        return (Reason::Trap, format!("called exit({code}): a handler returns instead"));
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::StackOverflow) => (Reason::StackLimit, STACK_MESSAGE.to_owned()),
        Some(Trap::MemoryOutOfBounds) if fault_address(&text).is_some_and(is_below_zero) => (Reason::StackLimit, STACK_MESSAGE.to_owned()),
        Some(trap) => (Reason::Trap, trap.to_string()),
        None => (Reason::Trap, text),
    }
}

/// The address in wasmtime's `memory fault at wasm address 0x...`.
fn fault_address(text: &str) -> Option<u64> {
    let (_, rest) = text.split_once("memory fault at wasm address 0x")?;
    let digits = rest.split(|digit: char| !digit.is_ascii_hexdigit()).next()?;
    u64::from_str_radix(digits, 16).ok()
}

/// Compilers put a guest's own stack at the start of its memory, growing towards 0. What overflows it wraps around to the end of the address
/// space, or just beyond it where the instruction adds an offset: no memory of a handler reaches there.
fn is_below_zero(address: u64) -> bool {
    const END: u64 = 1 << 32;
    address.abs_diff(END) <= LARGEST_FRAME_BYTES
}

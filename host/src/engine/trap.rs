//! From the error of a call to the named reason on the delivery's record.

use wasmtime::{PoolConcurrencyLimitError, Trap};
use wasmtime_wasi::I32Exit;

use super::epoch::Stopped;
use super::limits::{Limiter, Refused};
use super::output::Output;
use crate::verdict::{Reason, Verdict};

/// The longest message that is kept, in bytes.
const MAX_MESSAGE_BYTES: usize = 4 * 1024;

/// What the error of a call says about the run.
pub(super) fn verdict(error: &wasmtime::Error, limiter: &Limiter, output: &Output) -> Verdict {
    if let Some(Stopped(reason)) = error.downcast_ref::<Stopped>() {
        return Verdict::Aborted(*reason);
    }
    if error.is::<PoolConcurrencyLimitError>() {
        return Verdict::HostFault { message: format!("no free instance in the pool: {error:#}") };
    }
    let (reason, message) = reason(error, limiter, output);
    Verdict::Trapped { reason, message: cut(message) }
}

fn reason(error: &wasmtime::Error, limiter: &Limiter, output: &Output) -> (Reason, String) {
    // wasmtime has no type for these two; the texts are held by tests.
    let text = format!("{error:#}");
    if text.contains("fuel allocated for hostcalls") {
        return (Reason::HostCallLimit, "passed more data to one host call than `host_call_data` allows".to_owned());
    }
    if text.contains("resource handle") || text.contains("resource table has no free keys") || text.contains("too many handles") {
        return (Reason::HandleLimit, "held more resource handles than `handles` allows".to_owned());
    }
    match limiter.refused {
        Some(Refused::Memory { desired }) => {
            return (Reason::MemoryLimit, format!("asked for {desired} bytes of memory, more than `memory` allows"));
        }
        Some(Refused::Table { desired }) => {
            return (Reason::TableLimit, format!("asked for {desired} table elements, more than `table_elements` allows"));
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
        Some(Trap::StackOverflow) => (Reason::StackLimit, "calls were nested deeper than the stack allows".to_owned()),
        Some(trap) => (Reason::Trap, trap.to_string()),
        None => (Reason::Trap, text),
    }
}

/// Cuts a text at a character's end.
fn cut(mut text: String) -> String {
    if text.len() > MAX_MESSAGE_BYTES {
        let end = (0..=MAX_MESSAGE_BYTES).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}

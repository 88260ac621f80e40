//! The ticker: an OS thread that makes every running guest look at the clock.
//!
//! A task would stop exactly when it is needed: while guests keep all threads of a runtime busy. Ticks are not counted; they only say "look".

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use wasmtime::{Store, UpdateDeadline};

use super::abort::Abort;
use super::instance::RunState;
use crate::verdict::AbortReason;

/// Ticks until it is dropped.
pub(super) struct Ticker {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    pub(super) fn start(wasm: &wasmtime::Engine, tick: Duration) -> std::io::Result<Self> {
        let (stop, stopped) = channel();
        let wasm = wasm.clone();
        let thread = std::thread::Builder::new().name("epoch-ticker".to_owned()).spawn(move || {
            while stopped.recv_timeout(tick) == Err(RecvTimeoutError::Timeout) {
                wasm.increment_epoch();
            }
        })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // The thread only waits and counts; it cannot have panicked.
            let _ = thread.join();
        }
    }
}

/// The host stopped the guest. Travels through wasmtime as the error of the call.
#[derive(Debug, thiserror::Error)]
#[error("stopped by the host: {}", .0.reason())]
pub(super) struct Stopped(pub(super) AbortReason);

/// Makes the guest in `store` look at its abort at every tick, and give way to other guests.
pub(super) fn watch(store: &mut Store<RunState>, abort: Abort) {
    store.epoch_deadline_callback(move |_| match abort.stopped() {
        Some(reason) => Err(Stopped(reason).into()),
        // wasmtime's own yield wakes itself at once and starves the other tasks of the runtime.
        None => Ok(UpdateDeadline::YieldCustom(1, Box::pin(tokio::task::yield_now()))),
    });
    store.set_epoch_deadline(1);
}

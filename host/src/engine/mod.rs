//! The only door to wasm: components are loaded, checked and run here, and nobody else names wasmtime.
//!
//! Every run has a store and an instance of its own, which are dropped after it, always. Guests run on a runtime of their own, so that they
//! cannot starve whoever waits for them. Nothing here knows of a database.

mod options;
mod compile;
mod kind;
mod precompiled;
mod link;
mod problem;
mod instance;
mod abort;
mod epoch;
mod limits;
mod output;
mod panic_text;
mod answer;
mod trap;
mod imports;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

pub use abort::Abort;
pub use compile::{Component, Descriptor};
pub use instance::Run;
pub use limits::Limits;
pub use options::{EngineError, EngineOptions, Pooling};
pub use problem::{LoadError, Problem};

use epoch::Ticker;
use instance::RunState;

/// Loads components and runs them. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    shared: Arc<Shared>,
}

/// What all components of an engine share.
pub(crate) struct Shared {
    wasm: wasmtime::Engine,
    linker: wasmtime::component::Linker<RunState>,
    options: EngineOptions,
    /// Numbers the runs: a handle that a guest kept from another run is recognised by it.
    next_run: AtomicU32,
    /// Runs the guests. Taken out when the engine is dropped.
    guests: Option<tokio::runtime::Runtime>,
    _ticker: Ticker,
}

impl Engine {
    /// # Errors
    /// If the options contradict each other, or the machine does not give what they ask for.
    pub fn new(options: EngineOptions) -> Result<Self, EngineError> {
        let wasm = options.wasm_engine()?;
        let linker = link::linker(&wasm).map_err(EngineError::wasm)?;
        let mut guests = tokio::runtime::Builder::new_multi_thread();
        if options.worker_threads > 0 {
            guests.worker_threads(options.worker_threads);
        }
        let guests = guests.thread_name("guests").enable_all().build().map_err(EngineError::Threads)?;
        let ticker = Ticker::start(&wasm, options.tick).map_err(EngineError::Threads)?;
        let shared = Shared { wasm, linker, options, next_run: AtomicU32::new(1), guests: Some(guests), _ticker: ticker };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Reads, checks and compiles the component at `path`, or takes it from the compile cache, and asks it to describe itself with nothing
    /// granted.
    ///
    /// # Errors
    /// Every problem of the file, not only the first.
    pub async fn load(&self, path: &Path) -> Result<Component, LoadError> {
        compile::load(&self.shared, path).await
    }
}

impl Shared {
    fn guests(&self) -> &tokio::runtime::Handle {
        // Only `drop` takes the runtime out, and nobody holds `&self` then.
        match &self.guests {
            Some(runtime) => runtime.handle(),
            None => unreachable!("the guests' runtime lives as long as the engine"),
        }
    }
}

impl Drop for Shared {
    /// A runtime must not be dropped, which waits, where waiting is forbidden: in an async task.
    fn drop(&mut self) {
        if let Some(runtime) = self.guests.take() {
            runtime.shutdown_background();
        }
    }
}

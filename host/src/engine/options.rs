//! How the engine is set up, and what wasmtime makes of it.

use std::path::PathBuf;
use std::time::Duration;

use wasmtime::{Config, Enabled, InstanceAllocationStrategy, PoolingAllocationConfig};

/// Core instances, memories and tables of one component: the largest sample guests (JavaScript, Python) need about half of each.
pub(super) const MAX_CORE_INSTANCES: u32 = 64;
pub(super) const MAX_MEMORIES: u32 = 8;
pub(super) const MAX_TABLES: u32 = 16;
/// What a 32-bit memory can hold, and the most that a handler's limit may allow. Each slot of the pool reserves as much address space, which
/// also saves the guest its bounds checks; what a run really gets is up to its own limit.
const MAX_MEMORY_BYTES: usize = 1 << 32;
/// Memories that are reserved even if there are more places: half of the 128 TiB of address space that a process has.
const MOST_MEMORIES: u32 = 16 * 1024;
const MAX_TABLE_ELEMENTS: usize = 10_000_000;
/// Memory of a finished run that stays mapped for the next one in its slot: enough for the usual guest, little against its limit.
const KEEP_RESIDENT: usize = 1024 * 1024;
/// The host's side of a fiber's stack comes on top of the guest's.
const HOST_STACK: usize = 1024 * 1024;

/// How the engine is set up.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Instances at a time: the pool's size. Run slots and a few for loading.
    pub max_instances: u32,
    /// Stack of a guest, in bytes.
    pub stack_bytes: usize,
    /// How often a running guest is interrupted to look at the clock: the precision of every timeout.
    pub tick: Duration,
    /// Threads that guests run on; 0 is one for each core.
    pub worker_threads: usize,
    /// Where compiled components are kept; `None` keeps none.
    pub cache: Option<PathBuf>,
    pub pooling: Pooling,
}

/// Where instances get their memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// From a pool; on demand, with a warning, if the machine does not allow it.
    Auto,
    /// On demand: each run costs several times as much.
    Off,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            max_instances: 128,
            stack_bytes: 1024 * 1024,
            tick: Duration::from_millis(5),
            worker_threads: 0,
            cache: None,
            pooling: Pooling::Auto,
        }
    }
}

/// The engine cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error("wasm engine cannot be set up: {0}")]
    Wasm(String),
    #[error("the guests' threads cannot be started")]
    Threads(#[source] std::io::Error),
}

impl EngineError {
    // Taken by value to fit `map_err`.
    #[allow(clippy::needless_pass_by_value)]
    pub(super) fn wasm(error: wasmtime::Error) -> Self {
        Self::Wasm(format!("{error:#}"))
    }
}

impl EngineOptions {
    pub(super) fn wasm_engine(&self) -> Result<wasmtime::Engine, EngineError> {
        if self.pooling == Pooling::Auto {
            match wasmtime::Engine::new(&self.config(Some(self.pool()))) {
                Ok(engine) => return Ok(engine),
                Err(error) => tracing::warn!(
                    error = format!("{error:#}"),
                    max_instances = self.max_instances,
                    "no instance pool: every run will cost several times as much; is the address space limited (`ulimit -v`)?"
                ),
            }
        }
        wasmtime::Engine::new(&self.config(None)).map_err(EngineError::wasm)
    }

    fn config(&self, pool: Option<PoolingAllocationConfig>) -> Config {
        let mut config = Config::new();
        // Default-deny: what no handler of WASI 0.2 needs stays off.
        config.concurrency_support(false);
        config.wasm_memory64(false);
        config.epoch_interruption(true);
        config.memory_init_cow(true);
        config.max_wasm_stack(self.stack_bytes);
        config.async_stack_size(self.stack_bytes + HOST_STACK);
        if let Some(pool) = pool {
            config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
        }
        config
    }

    fn pool(&self) -> PoolingAllocationConfig {
        let mut pool = PoolingAllocationConfig::new();
        let n = self.max_instances;
        pool.total_component_instances(n);
        pool.total_stacks(n);
        // Core instances are only counted. Of the rest, half of what one component may have is enough for the largest sample guests in all
        // places at once; a Rust guest has one memory.
        pool.total_core_instances(n.saturating_mul(MAX_CORE_INSTANCES));
        pool.total_memories(n.saturating_mul(MAX_MEMORIES / 2).min(MOST_MEMORIES.max(n)).max(MAX_MEMORIES));
        pool.total_tables(n.saturating_mul(MAX_TABLES / 2).max(MAX_TABLES));
        pool.max_core_instances_per_component(MAX_CORE_INSTANCES);
        pool.max_memories_per_component(MAX_MEMORIES);
        pool.max_tables_per_component(MAX_TABLES);
        pool.max_memories_per_module(MAX_MEMORIES);
        pool.max_tables_per_module(MAX_TABLES);
        pool.max_memory_size(MAX_MEMORY_BYTES);
        pool.table_elements(MAX_TABLE_ELEMENTS);
        pool.linear_memory_keep_resident(KEEP_RESIDENT);
        pool.table_keep_resident(KEEP_RESIDENT);
        pool.async_stack_keep_resident(KEEP_RESIDENT);
        pool.pagemap_scan(if PoolingAllocationConfig::is_pagemap_scan_available() { Enabled::Yes } else { Enabled::No });
        pool
    }
}

//! The engine with real guests: how runs end, what they may use, what they cannot reach, and how they are stopped.

#[path = "engine/endings.rs"]
mod endings;
#[path = "engine/limits.rs"]
mod limits;
#[path = "engine/stopping.rs"]
mod stopping;
#[path = "engine/leases.rs"]
mod leases;
#[path = "engine/contract.rs"]
mod contract;
#[path = "engine/isolation.rs"]
mod isolation;
#[path = "engine/pool.rs"]
mod pool;
#[path = "engine/loading.rs"]
mod loading;
#[path = "engine/cache.rs"]
mod cache;

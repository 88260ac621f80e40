//! Runs durable event handlers written in any language that compiles to a WebAssembly component.
//!
//! Read in this order: `delivery`, `lease`, `verdict` and `policy` are the words; `store` and `engine` the two doors to the world, which know
//! nothing of each other; `dispatch` joins them in one loop: claim, run, settle.

pub mod delivery;
pub mod topic;
pub mod lease;
pub mod verdict;
pub mod policy;
pub mod clock;
pub mod store;
pub mod engine;
pub mod dispatch;
pub mod retention;
pub mod config;
pub mod cli;
pub mod telemetry;

//! The whole flow while the store goes wrong, and what must hold whatever happens.
#![allow(clippy::unwrap_used, reason = "a test fails where it expects too much")]

#[path = "faults/flow.rs"]
mod flow;
#[path = "faults/checker.rs"]
mod checker;
#[path = "faults/chance.rs"]
mod chance;
#[path = "faults/network.rs"]
mod network;

//! What is MongoDB's alone. The contract's clauses are the conformance suite's.
#![allow(clippy::unwrap_used, reason = "all of this file is tests")]

#[path = "mongodb/operators.rs"]
mod operators;
#[path = "mongodb/plans.rs"]
mod plans;
#[path = "mongodb/publish.rs"]
mod publish;

//! The dispatcher over a real store with real components: what follows a run, leases, stops.
#![allow(clippy::unwrap_used, reason = "a test fails where it expects too much")]

#[path = "dispatch/outcomes.rs"]
mod outcomes;
#[path = "dispatch/leases.rs"]
mod leases;
#[path = "dispatch/stop.rs"]
mod stop;
#[path = "dispatch/lost_replies.rs"]
mod lost_replies;
#[path = "dispatch/postgres.rs"]
mod postgres;

//! The dispatcher over a real store with real components: what follows a run, leases, stops.

#[path = "dispatch/outcomes.rs"]
mod outcomes;
#[path = "dispatch/leases.rs"]
mod leases;
#[path = "dispatch/stop.rs"]
mod stop;
#[path = "dispatch/lost_replies.rs"]
mod lost_replies;

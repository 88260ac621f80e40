//! Write relaybus event handlers in Rust.
//!
//! A handler is a type that implements [`Handler`], exported with [`export!`] from a crate of the type `cdylib` that is built for
//! `wasm32-wasip2`. This is a whole one:
//!
//! ```
//! use relaybus_sdk::{Delivery, Handler, Result, export, log};
//! struct Greet;
//! impl Handler for Greet {
//!     const NAME: &str = "greet";
//!     const TOPICS: &[&str] = &["greeting.*"];
//!     fn handle(delivery: Delivery) -> Result {
//!         delivery.json::<String>().map(|name| log::info!("hello, {name}"))
//!     }
//! }
//! export!(Greet);
//! # fn main() {}
//! ```
//!
//! A delivery arrives at least once, and each run starts in a sandbox of its own: statics are as they were at the start, and nothing but the
//! events of [`publish`] outlives the run. The crate also compiles for other targets, so that the rest of a handler's crate can be tested there;
//! but whatever asks the host panics outside of one.

/// What [`export!`] expands to names these. Not part of the interface.
#[doc(hidden)]
pub mod bindings;
mod context;
mod delivery;
mod event;
mod failure;
mod handler;
pub mod log;

pub use context::{Aborted, aborted, remaining, sleep};
pub use delivery::Delivery;
pub use event::{Event, PublishError, publish};
pub use failure::{Failure, OrBury, Result};
pub use handler::Handler;

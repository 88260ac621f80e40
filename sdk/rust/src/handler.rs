//! The trait of a handler, and its way out of the component.
//!
//! The blanket implementations below are the only place that meets the exported interfaces; no other module knows them.

use crate::bindings::exports::relaybus::handler::{describe, handler};
use crate::bindings::relaybus::handler::types;
use crate::{Delivery, Result};

/// A plain handler: its effects are its own affair, so it should be idempotent by [`Delivery::id`].
///
/// ```
/// use relaybus_sdk::{Delivery, Handler, Result, export};
///
/// struct Audit;
///
/// impl Handler for Audit {
///     const NAME: &str = "audit";
///     const TOPICS: &[&str] = &["order.>", "refund.*"];
///     const OPTIONS: &[(&str, &str)] = &[("timeout", "5s"), ("max_attempts", "8")];
///
///     fn handle(delivery: Delivery) -> Result {
///         println!("{} at attempt {}", delivery.topic(), delivery.attempt());
///         Ok(())
///     }
/// }
///
/// export!(Audit);
/// # fn main() {}
/// ```
pub trait Handler {
    /// Unique within the tenant: 1 to 64 characters of `[A-Za-z0-9_-]`.
    const NAME: &'static str;

    /// The topic patterns to subscribe to, at least one: `*` is one token, `>` comes last and is one or more.
    const TOPICS: &'static [&'static str];

    /// Options with the names and values of the configuration file, which overrides them: `("timeout", "5s")`, `("concurrency", "8")`.
    ///
    /// The host refuses a component with an unknown name or a value that does not parse.
    const OPTIONS: &'static [(&'static str, &'static str)] = &[];

    /// Handles one delivery.
    ///
    /// Ok completes it, and stores what the run has published. A [`Failure`](crate::Failure) says what should follow; any error that `?` makes
    /// into one asks for another try. A panic is a failed run as well: the host keeps its text and tries again.
    fn handle(delivery: Delivery) -> Result;
}

impl<H: Handler> describe::Guest for H {
    fn describe() -> describe::Descriptor {
        describe::Descriptor {
            name: H::NAME.to_owned(),
            topics: H::TOPICS.iter().map(|&topic| topic.to_owned()).collect(),
            options: H::OPTIONS.iter().map(|&(name, value)| types::Entry { name: name.to_owned(), value: value.to_owned() }).collect(),
        }
    }
}

impl<H: Handler> handler::Guest for H {
    fn handle(delivery: types::Delivery) -> Result<(), types::Failure> {
        H::handle(Delivery(delivery)).map_err(types::Failure::from)
    }
}

/// Makes a type that implements [`Handler`] the handler of this component. Once per crate.
///
/// On other targets than WebAssembly it checks the type and exports nothing: a native linker does not take the names.
#[macro_export]
macro_rules! export {
    ($handler:ident) => {
        #[cfg(target_family = "wasm")]
        $crate::bindings::export!($handler with_types_in $crate::bindings);
        #[cfg(not(target_family = "wasm"))]
        const _: fn($crate::Delivery) -> $crate::Result = <$handler as $crate::Handler>::handle;
    };
}

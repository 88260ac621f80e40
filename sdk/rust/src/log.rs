//! Structured log lines.
//!
//! They go to the host's log, and the last of them are kept with the run when it fails; so is what is printed to stdout and stderr, panics
//! included. Fields come first, as in `tracing`; their values are written as they are displayed.
//!
//! ```no_run
//! use relaybus_sdk::log;
//!
//! let (order, total) = (17, 12.5);
//! log::info!("nothing to do");
//! log::warn!(order = order, total = total, "order {order} waits for its payment");
//! ```

use std::fmt::Display;

use crate::bindings::relaybus::handler::{log, types};

/// How much a line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Every step, for whoever hunts a bug.
    Trace,
    /// For whoever works on the handler.
    Debug,
    /// For whoever runs it.
    Info,
    /// Something was not as it should be; the handler coped.
    Warn,
    /// Somebody should look at it.
    Error,
}

/// Writes one line. The macros of this module are shorter.
///
/// ```no_run
/// use relaybus_sdk::log::{self, Level};
///
/// log::write(Level::Debug, "paid", &[("order", &17), ("currency", &"EUR")]);
/// ```
pub fn write(level: Level, message: &str, fields: &[(&str, &dyn Display)]) {
    let level = match level {
        Level::Trace => log::Level::Trace,
        Level::Debug => log::Level::Debug,
        Level::Info => log::Level::Info,
        Level::Warn => log::Level::Warn,
        Level::Error => log::Level::Error,
    };
    let fields: Vec<_> = fields.iter().map(|(name, value)| types::Entry { name: (*name).to_owned(), value: value.to_string() }).collect();
    log::log(level, message, &fields);
}

/// What the five macros share.
#[doc(hidden)]
#[macro_export]
macro_rules! __log {
    ($level:ident, $($name:ident = $value:expr,)* $format:literal $($arguments:tt)*) => {
        $crate::log::write(
            $crate::log::Level::$level,
            &::std::format!($format $($arguments)*),
            &[$((::std::stringify!($name), &$value)),*],
        )
    };
}

macro_rules! level_macros {
    ($dollar:tt $($(#[$doc:meta])* $hidden:ident as $name:ident = $level:ident,)*) => {
        $(
            #[doc(hidden)]
            #[macro_export]
            macro_rules! $hidden {
                ($dollar($dollar line:tt)*) => { $dollar crate::__log!($level, $dollar($dollar line)*) };
            }

            $(#[$doc])*
            #[doc(inline)]
            pub use $hidden as $name;
        )*
    };
}

level_macros! { $
    /// Writes a line of the level [`Trace`](Level::Trace): `log::trace!(field = value, "text {}", argument)`.
    __log_trace as trace = Trace,
    /// Writes a line of the level [`Debug`](Level::Debug): `log::debug!(field = value, "text {}", argument)`.
    __log_debug as debug = Debug,
    /// Writes a line of the level [`Info`](Level::Info): `log::info!(field = value, "text {}", argument)`.
    __log_info as info = Info,
    /// Writes a line of the level [`Warn`](Level::Warn): `log::warn!(field = value, "text {}", argument)`.
    __log_warn as warn = Warn,
    /// Writes a line of the level [`Error`](Level::Error): `log::error!(field = value, "text {}", argument)`.
    __log_error as error = Error,
}

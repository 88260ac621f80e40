//! Why a run did not succeed, and what should follow.
//!
//! A [`Failure`] decides nothing: the host follows it within the handler's limits.

use std::error::Error;
use std::fmt::{self, Display};
use std::time::Duration;

use crate::bindings::relaybus::handler::types;

/// What a handler returns; a failure unless named otherwise.
pub type Result<T = (), E = Failure> = std::result::Result<T, E>;

/// Why a run did not succeed, and what should follow.
///
/// `?` makes one of any error: it asks for another try, and its message is the error with its sources.
///
/// ```
/// use std::time::Duration;
/// use relaybus_sdk::{Failure, Result};
///
/// fn parse(number: &str) -> Result<u32> {
///     Ok(number.parse()?)
/// }
/// assert_eq!(parse("seven").unwrap_err().message(), "invalid digit found in string");
///
/// let declined = Failure::bury("the card was declined").code("card-declined").extra("card", "4242");
/// let busy = Failure::retry("the relay is busy").retry_after(Duration::from_secs(30));
/// # let _ = (declined, busy);
/// ```
///
/// It is not an error itself, or `?` could not turn every error into one. Errors of `anyhow`, which are none either, go through
/// `.map_err(Failure::retry)`: messages are written in the alternate form, which shows their whole chain.
#[derive(Clone, Debug, PartialEq)]
#[must_use = "a failure has no effect until the handler returns it"]
pub struct Failure {
    message: String,
    code: Option<String>,
    next: Next,
    extras: Vec<(String, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Next {
    Retry,
    RetryAfter(Duration),
    Snooze(Duration),
    Bury,
}

impl Failure {
    /// Try again by the handler's retry policy. At the last attempt the delivery is buried.
    pub fn retry(message: impl Display) -> Self {
        Self { message: format!("{message:#}"), code: None, next: Next::Retry, extras: Vec::new() }
    }

    /// Never again: park the delivery for a person.
    pub fn bury(message: impl Display) -> Self {
        Self { next: Next::Bury, ..Self::retry(message) }
    }

    /// Try again, not before `delay`. At the last attempt the delivery is buried.
    pub fn retry_after(self, delay: Duration) -> Self {
        Self { next: Next::RetryAfter(delay), ..self }
    }

    /// Not ready yet: try again, not before `delay`. The attempt does not count, a bounded number of times.
    pub fn snooze(self, delay: Duration) -> Self {
        Self { next: Next::Snooze(delay), ..self }
    }

    /// A short stable word to group failures by, such as `card-declined`.
    pub fn code(self, code: impl Into<String>) -> Self {
        Self { code: Some(code.into()), ..self }
    }

    /// Adds a named text that is kept with the delivery.
    pub fn extra(mut self, name: impl Into<String>, value: impl Display) -> Self {
        self.extras.push((name.into(), value.to_string()));
        self
    }

    /// The message, for people.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl<E: Error> From<E> for Failure {
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(error) = source {
            let text = error.to_string();
            // Some errors show their source themselves; once is enough.
            if !message.ends_with(&text) {
                message.push_str(": ");
                message.push_str(&text);
            }
            source = error.source();
        }
        Self::retry(message)
    }
}

/// Says of an error that another try cannot help.
///
/// ```
/// use relaybus_sdk::{OrBury, Result};
///
/// fn parse(number: &str) -> Result<u32> {
///     number.parse().or_bury()
/// }
/// # assert!(parse("seven").is_err());
/// ```
pub trait OrBury<T> {
    /// Turns an error into a failure that buries, with the error and its sources as message.
    ///
    /// # Errors
    /// If this is one.
    fn or_bury(self) -> Result<T>;
}

impl<T, E: Into<Failure>> OrBury<T> for Result<T, E> {
    fn or_bury(self) -> Result<T> {
        self.map_err(|error| Failure { next: Next::Bury, ..error.into() })
    }
}

impl From<Failure> for types::Failure {
    fn from(failure: Failure) -> Self {
        Self {
            message: failure.message,
            code: failure.code,
            next: match failure.next {
                Next::Retry => types::NextStep::Retry,
                Next::RetryAfter(delay) => types::NextStep::RetryAfterMs(crate::context::milliseconds(delay)),
                Next::Snooze(delay) => types::NextStep::SnoozeMs(crate::context::milliseconds(delay)),
                Next::Bury => types::NextStep::Bury,
            },
            extras: failure.extras.into_iter().map(|(name, value)| types::Entry { name, value }).collect(),
        }
    }
}

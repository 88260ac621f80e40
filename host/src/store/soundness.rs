//! What every store accepts, whichever it is: an event must not depend on the store that it meets.

use super::{ErrorKind, Result, StoreError, Subscribe};
use crate::delivery::{NewEvent, is_valid_name};

/// The largest payload, in bytes: what each of the databases can hold in a row.
const MAX_PAYLOAD_BYTES: usize = 512 << 20;
/// The most that is kept of a message, from its beginning.
const MAX_MESSAGE_BYTES: usize = 16 << 10;
/// The most that is kept of an output, from its end: the last lines say why.
const MAX_OUTPUT_BYTES: usize = 64 << 10;

impl Subscribe {
    /// # Errors
    /// `Misconfigured` if the tenant or the name is none.
    pub(super) fn check(&self) -> Result<()> {
        for (field, name) in [("tenant", &self.tenant), ("name", &self.name)] {
            if !is_valid_name(name) {
                let message = format!("{field}: expected 1 to 64 characters of `A-Z a-z 0-9 _ -`, got `{}`", name.escape_debug());
                return Err(StoreError::new("subscribe", ErrorKind::Misconfigured, message));
            }
        }
        Ok(())
    }
}

/// Why `event` is not stored by `operation`.
pub(super) fn problem_of(operation: &'static str, event: &NewEvent) -> Option<StoreError> {
    let problem = if !is_valid_name(&event.tenant) {
        format!("tenant: expected 1 to 64 characters of `A-Z a-z 0-9 _ -`, got `{}`", event.tenant.escape_debug())
    } else if event.payload.len() > MAX_PAYLOAD_BYTES {
        format!("payload: expected at most {MAX_PAYLOAD_BYTES} bytes, got {}", event.payload.len())
    } else {
        event.problem_of_texts()?
    };
    Some(StoreError::new(operation, ErrorKind::Corrupt, problem))
}

/// A message of a run as the stores keep it. Texts come from guests, and must never be the reason that a settlement fails.
pub(super) fn clean_message(text: &str) -> String {
    without_nul(&text[..text.floor_char_boundary(MAX_MESSAGE_BYTES)])
}

/// The output of a run as the stores keep it.
pub(super) fn clean_output(text: &str) -> String {
    without_nul(&text[text.ceil_char_boundary(text.len().saturating_sub(MAX_OUTPUT_BYTES))..])
}

/// PostgreSQL refuses a NUL; SQLite keeps it, but most of its tools end the text there.
fn without_nul(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

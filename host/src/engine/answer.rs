//! What guests answer, made fit to be kept: texts are cut, durations are sane. Nothing here decides what follows.

use super::compile::Descriptor;
use super::imports::{DescriptorRecord, FailureRecord, NextStepVariant, milliseconds};
use crate::verdict::{Failure, NextStep};

/// The longest message of a failure or a trap: a stack trace fits, a dump of the payload does not.
const MAX_MESSAGE_BYTES: usize = 8 * 1024;
/// A code is a short word.
const MAX_CODE_BYTES: usize = 128;
/// Name or value of an extra.
const MAX_EXTRA_BYTES: usize = 1024;
const MAX_EXTRAS: usize = 32;

impl From<DescriptorRecord> for Descriptor {
    fn from(record: DescriptorRecord) -> Self {
        let options = record.options.into_iter().map(|entry| (entry.name, entry.value)).collect();
        Self { name: record.name, topics: record.topics, options }
    }
}

impl From<FailureRecord> for Failure {
    fn from(record: FailureRecord) -> Self {
        let extras = record.extras.into_iter().take(MAX_EXTRAS);
        Self {
            message: message(record.message),
            code: record.code.map(|code| cut(code, MAX_CODE_BYTES)),
            next: match record.next {
                NextStepVariant::Retry => NextStep::Retry,
                NextStepVariant::RetryAfterMs(delay) => NextStep::RetryAfter(milliseconds(delay)),
                NextStepVariant::SnoozeMs(delay) => NextStep::Snooze(milliseconds(delay)),
                NextStepVariant::Bury => NextStep::Bury,
            },
            extras: extras.map(|entry| (cut(entry.name, MAX_EXTRA_BYTES), cut(entry.value, MAX_EXTRA_BYTES))).collect(),
        }
    }
}

/// A message as it is kept.
pub(super) fn message(text: String) -> String {
    cut(text, MAX_MESSAGE_BYTES)
}

/// Cuts a text at a character's end, and shows that it did.
fn cut(mut text: String, max_bytes: usize) -> String {
    if text.len() > max_bytes {
        text.truncate(text.floor_char_boundary(max_bytes));
        text.push('…');
    }
    text
}

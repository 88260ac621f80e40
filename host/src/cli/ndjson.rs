//! Events as lines of JSON: `{topic?, data | data_base64, key?, content_type?, headers?, delay?, dedup_id?}`.
//!
//! Knows nothing of stores. A line that is wrong is a text that says why.

use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use tokio::io::{AsyncBufRead, AsyncBufReadExt};

use super::event;
use crate::delivery::{Header, NewEvent};
use crate::topic::Topic;

/// Besides the payload a line holds names, headers and base64's third.
const LINE_OVERHEAD_BYTES: u64 = 64 * 1024;

/// What lines leave out, and what they may hold.
#[derive(Clone, Debug)]
pub(super) struct Defaults {
    pub(super) topic: Option<Topic>,
    pub(super) tenant: String,
    pub(super) max_payload_bytes: u64,
}

/// One line, before it is an event. The payload is kept as it was written: a number of any length survives.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    topic: Option<Topic>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    data_base64: Option<String>,
    key: Option<String>,
    content_type: Option<String>,
    #[serde(default)]
    headers: Headers,
    delay: Option<String>,
    dedup_id: Option<String>,
}

/// The event that `line` describes, or what is wrong with it.
pub(super) fn parse(line: &[u8], defaults: &Defaults) -> Result<NewEvent, String> {
    let line: Line<'_> = serde_json::from_slice(line).map_err(|error| describe(&error))?;
    let topic = line.topic.or_else(|| defaults.topic.clone()).ok_or("expected `topic`: neither the line nor the command line names one")?;
    let content_type = line.content_type.unwrap_or_else(|| NewEvent::DEFAULT_CONTENT_TYPE.to_owned());
    let payload = match (line.data, line.data_base64) {
        (Some(data), None) if event::is_json(&content_type) => Bytes::copy_from_slice(data.get().as_bytes()),
        (Some(data), None) => serde_json::from_str::<String>(data.get())
            .map_err(|_| format!("expected `data` to be a string, as the content type is `{content_type}`; or `data_base64`"))?
            .into(),
        (None, Some(text)) => BASE64_STANDARD.decode(&text).map_err(|error| format!("expected base64 in `data_base64`: {error}"))?.into(),
        (Some(_), Some(_)) | (None, None) => return Err("expected exactly one of `data` and `data_base64`".to_owned()),
    };
    if payload.len() as u64 > defaults.max_payload_bytes {
        return Err(event::too_large(payload.len() as u64, defaults.max_payload_bytes));
    }
    let delay = match &line.delay {
        Some(text) => humantime::parse_duration(text).map_err(|_| format!("`delay`: expected a duration such as \"5s\", got {text:?}"))?,
        None => Duration::ZERO,
    };
    Ok(NewEvent {
        tenant: defaults.tenant.clone(),
        key: line.key,
        content_type,
        headers: line.headers.0,
        delay,
        dedup_id: line.dedup_id,
        ..NewEvent::new(topic, payload)
    })
}

/// The parser's message, with the column: its line number is always 1.
fn describe(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let message = text.rsplit_once(" at line ").map_or(text.as_str(), |(message, _)| message);
    if error.column() == 0 { message.to_owned() } else { format!("column {}: {message}", error.column()) }
}

/// An object of texts, in its order; a name may occur more than once.
#[derive(Default)]
struct Headers(Vec<Header>);

impl<'de> Deserialize<'de> for Headers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Headers;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of texts in `headers`")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Headers, A::Error> {
                let mut headers = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, String>()? {
                    if name.is_empty() {
                        return Err(de::Error::custom("expected a name in `headers`, got an empty text"));
                    }
                    headers.push(Header { name, value });
                }
                Ok(Headers(headers))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

/// Lines of bounded length: one that is longer than any event may be is passed over, not kept.
pub(super) struct Lines<R> {
    source: R,
    max_bytes: usize,
    number: u64,
    n_bytes: u64,
}

/// A line, or why there is none.
pub(super) type ReadLine = Result<Vec<u8>, String>;

impl<R: AsyncBufRead + Unpin> Lines<R> {
    pub(super) fn new(source: R, max_payload_bytes: u64) -> Self {
        let max_bytes = max_payload_bytes.saturating_mul(2).saturating_add(LINE_OVERHEAD_BYTES);
        Self { source, max_bytes: usize::try_from(max_bytes).unwrap_or(usize::MAX), number: 0, n_bytes: 0 }
    }

    /// How much was read.
    pub(super) const fn n_bytes(&self) -> u64 {
        self.n_bytes
    }

    /// The next line with its number, from 1; `None` at the end.
    pub(super) async fn next(&mut self) -> std::io::Result<Option<(u64, ReadLine)>> {
        let (mut line, mut is_too_long, mut is_empty) = (Vec::new(), false, true);
        loop {
            let available = self.source.fill_buf().await?;
            if available.is_empty() {
                break;
            }
            is_empty = false;
            let end = available.iter().position(|byte| *byte == b'\n');
            let part = &available[..end.unwrap_or(available.len())];
            is_too_long = is_too_long || line.len() + part.len() > self.max_bytes;
            if !is_too_long {
                line.extend_from_slice(part);
            }
            let n_consumed = part.len() + usize::from(end.is_some());
            self.source.consume(n_consumed);
            self.n_bytes += n_consumed as u64;
            if end.is_some() {
                break;
            }
        }
        if is_empty {
            return Ok(None);
        }
        self.number += 1;
        let read = if is_too_long { Err(format!("expected a line of at most {} bytes", self.max_bytes)) } else { Ok(line) };
        Ok(Some((self.number, read)))
    }
}

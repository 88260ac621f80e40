//! The nouns of the system: events, deliveries, and the ids that name them.
//!
//! Nothing here talks to a database or to wasm.

use std::fmt;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::topic::Topic;

/// The longest name of a tenant or a handler, in bytes.
pub const MAX_NAME_BYTES: usize = 64;

/// The longest key or dedup id of an event, in bytes: what every database can index, beside the longest topic.
pub const MAX_KEY_BYTES: usize = 1024;

/// The longest media type, in bytes.
pub const MAX_CONTENT_TYPE_BYTES: usize = 256;

/// All headers of an event together, names and values, in bytes.
pub const MAX_HEADER_BYTES: usize = 64 * 1024;

/// The tenant of everything for which none is named.
pub const DEFAULT_TENANT: &str = "default";

macro_rules! uuid_newtype {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl std::str::FromStr for $name {
            type Err = uuid::Error;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                text.parse().map(Self)
            }
        }
    };
}

uuid_newtype! {
    /// Names an event: UUID version 7, made by whoever publishes it.
    EventId
}

uuid_newtype! {
    /// Names a delivery: UUID version 8, derived from the event and the handler.
    DeliveryId
}

uuid_newtype! {
    /// Names one host process; random at each start, because a configured name would hide the work of a dead twin.
    WorkerId
}

impl EventId {
    /// A new, time-ordered id.
    pub fn new() -> Self {
        Self(Uuid::now_v7())
    }
}

impl Default for EventId {
    fn default() -> Self {
        Self::new()
    }
}

impl WorkerId {
    /// A new random id.
    pub fn random() -> Self {
        Self(Uuid::new_v4())
    }
}

impl DeliveryId {
    /// The id of `event` for the handler `handler` of `tenant`.
    ///
    /// The first six bytes are the event's, so that ids stay time-ordered; the rest is the start of
    /// `sha256(event id, tenant, 0, handler)`. The same event and handler always give the same id on every store, so a repeated fan-out
    /// creates nothing new.
    pub fn derive(event: EventId, tenant: &str, handler: &str) -> Self {
        let mut hash = Sha256::new();
        hash.update(event.0.as_bytes());
        hash.update(tenant.as_bytes());
        hash.update([0]);
        hash.update(handler.as_bytes());
        let digest = hash.finalize();
        let mut bytes = [0; 16];
        bytes[..6].copy_from_slice(&event.0.as_bytes()[..6]);
        bytes[6..].copy_from_slice(&digest[..10]);
        Self(uuid::Builder::from_custom_bytes(bytes).into_uuid())
    }
}

/// Names a handler within one store. Given by the store at [`subscribe`](crate::store::Store::subscribe).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HandlerId(pub i64);

impl fmt::Display for HandlerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Whether `name` may name a tenant or a handler: 1 to 64 characters of `[A-Za-z0-9_-]`.
pub fn is_valid_name(name: &str) -> bool {
    (1..=MAX_NAME_BYTES).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

/// A header of an event. Names are compared without regard to ASCII case, and may repeat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    pub name: String,
    pub value: String,
}

/// An event on its way into a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEvent {
    /// Made by the caller, so that a publish whose reply was lost can be repeated without storing the event twice.
    pub id: EventId,
    pub tenant: String,
    pub topic: Topic,
    pub key: Option<String>,
    pub content_type: String,
    pub headers: Vec<Header>,
    pub payload: Bytes,
    /// Not delivered before this long after it was stored.
    pub delay: std::time::Duration,
    /// An event of the same tenant and topic with the same id is stored once.
    pub dedup_id: Option<String>,
}

impl NewEvent {
    /// The media type of a payload for which none is named.
    pub const DEFAULT_CONTENT_TYPE: &'static str = "application/json";

    /// A JSON event of the default tenant without key, headers, delay or dedup id.
    pub fn new(topic: Topic, payload: impl Into<Bytes>) -> Self {
        Self {
            id: EventId::new(),
            tenant: DEFAULT_TENANT.to_owned(),
            topic,
            key: None,
            content_type: Self::DEFAULT_CONTENT_TYPE.to_owned(),
            headers: Vec::new(),
            payload: payload.into(),
            delay: std::time::Duration::ZERO,
            dedup_id: None,
        }
    }

    /// Why no store takes this event's texts: one is too long, or has a NUL in it, which PostgreSQL refuses.
    pub fn problem_of_texts(&self) -> Option<String> {
        let texts = [
            ("key", self.key.as_ref(), MAX_KEY_BYTES),
            ("content_type", Some(&self.content_type), MAX_CONTENT_TYPE_BYTES),
            ("dedup_id", self.dedup_id.as_ref(), MAX_KEY_BYTES),
        ];
        for (field, text, max_bytes) in texts {
            let Some(text) = text else { continue };
            if text.len() > max_bytes {
                return Some(format!("{field}: expected at most {max_bytes} bytes, got {}", text.len()));
            }
            if text.contains('\0') {
                return Some(format!("{field}: expected a text without NUL characters"));
            }
        }
        let n_header_bytes: usize = self.headers.iter().map(|header| header.name.len() + header.value.len()).sum();
        if n_header_bytes > MAX_HEADER_BYTES {
            return Some(format!("headers: expected at most {MAX_HEADER_BYTES} bytes together, got {n_header_bytes}"));
        }
        let has_nul = self.headers.iter().any(|header| header.name.contains('\0') || header.value.contains('\0'));
        has_nul.then(|| "headers: expected a text without NUL characters".to_owned())
    }
}

/// Where a delivery stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Waits until it is due.
    Pending,
    /// Claimed, under a lease.
    Processing,
    /// Ended well. Final.
    Completed,
    /// Must not be tried again. Final until somebody redrives it.
    Buried,
}

impl Status {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Processing => "processing",
            Self::Completed => "completed",
            Self::Buried => "buried",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A delivery that this worker has claimed, with its event.
#[derive(Clone, Debug)]
pub struct ClaimedDelivery {
    pub id: DeliveryId,
    pub event_id: EventId,
    pub handler: HandlerId,
    pub topic: Topic,
    pub key: Option<String>,
    /// 1 for the first run.
    pub attempt: u32,
    pub max_attempts: u32,
    /// Leases of this delivery that expired under a worker.
    pub crashes: u32,
    /// Times that its handler answered `snooze` since it last failed otherwise.
    pub snoozes: u32,
    /// By the store's clock.
    pub published_at: DateTime<Utc>,
    pub content_type: String,
    pub headers: Vec<Header>,
    pub payload: Bytes,
}

/// From this many crashes on a delivery runs with nothing else in flight on its worker, so that what kills its host takes no neighbour along (R8).
pub const ISOLATED_FROM_CRASHES: u32 = 2;

impl ClaimedDelivery {
    /// Whether nothing else may be in flight on the worker that runs this delivery (R8).
    pub const fn is_isolated(&self) -> bool {
        self.crashes >= ISOLATED_FROM_CRASHES
    }
}

//! The sections of the configuration file other than the handlers': their fields, defaults and keys.

use std::path::PathBuf;
use std::time::Duration;

use super::{Key, Keys};
use crate::engine::Pooling;
use crate::store::{Retention, StoreOptions};

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const MILLISECOND: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// `[store]`: where events and deliveries live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreSettings {
    pub url: String,
    pub call_timeout: Duration,
    pub max_connections: u32,
}

impl Default for StoreSettings {
    fn default() -> Self {
        Self { url: "sqlite:relaybus.db".to_owned(), call_timeout: 5 * SECOND, max_connections: 8 }
    }
}

impl StoreSettings {
    pub const fn options(&self) -> StoreOptions {
        StoreOptions { call_timeout: self.call_timeout, max_connections: self.max_connections }
    }
}

pub(super) const STORE: Keys<StoreSettings> = &[
    Key {
        name: "url",
        set: |to, from| {
            let read = |text: &str| text.contains(':').then(|| text.to_owned());
            from.word("a store such as \"sqlite:relaybus.db\"", read).map(|value| to.url = value)
        },
    },
    Key { name: "call_timeout", set: |to, from| from.duration(MILLISECOND * 10..=HOUR, "5s").map(|value| to.call_timeout = value) },
    Key { name: "max_connections", set: |to, from| from.count(1..=1_000).map(|value| to.max_connections = value) },
];

/// `[dispatcher]`: how deliveries are claimed, leased and stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DispatcherSettings {
    /// Runs at a time.
    pub concurrency: u32,
    /// Deliveries claimed ahead of a free run slot.
    pub prefetch: u32,
    /// Payloads of these, in bytes.
    pub prefetch_bytes: u64,
    pub lease_duration: Duration,
    pub poll_interval: Duration,
    pub shutdown_timeout: Duration,
}

impl Default for DispatcherSettings {
    fn default() -> Self {
        Self {
            concurrency: 64,
            prefetch: 500,
            prefetch_bytes: 32 * MIB,
            lease_duration: 30 * SECOND,
            poll_interval: SECOND,
            shutdown_timeout: 30 * SECOND,
        }
    }
}

pub(super) const DISPATCHER: Keys<DispatcherSettings> = &[
    Key { name: "concurrency", set: |to, from| from.count(1..=10_000).map(|value| to.concurrency = value) },
    Key { name: "prefetch", set: |to, from| from.count(0..=100_000).map(|value| to.prefetch = value) },
    Key { name: "prefetch_bytes", set: |to, from| from.size(64 * KIB..=64 * 1024 * MIB, "32MiB").map(|value| to.prefetch_bytes = value) },
    Key { name: "lease_duration", set: |to, from| from.duration(MILLISECOND * 500..=DAY, "30s").map(|value| to.lease_duration = value) },
    Key { name: "poll_interval", set: |to, from| from.duration(MILLISECOND * 10..=HOUR, "250ms").map(|value| to.poll_interval = value) },
    Key {
        name: "shutdown_timeout",
        set: |to, from| from.duration(MILLISECOND * 100..=DAY, "30s").map(|value| to.shutdown_timeout = value),
    },
];

/// `[engine]`: how components are compiled and run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineSettings {
    /// Threads that run guests; `None` is one per core.
    pub guest_threads: Option<u32>,
    /// How soon a running guest notices its abort.
    pub tick: Duration,
    /// Where compiled components are kept; `None` is the user's cache folder.
    pub cache_dir: Option<PathBuf>,
    /// Stack of one run, in bytes.
    pub stack_bytes: usize,
    pub pooling: Pooling,
}

impl Default for EngineSettings {
    fn default() -> Self {
        Self { guest_threads: None, tick: 5 * MILLISECOND, cache_dir: None, stack_bytes: 1024 * 1024, pooling: Pooling::Auto }
    }
}

pub(super) const ENGINE: Keys<EngineSettings> = &[
    Key { name: "guest_threads", set: |to, from| from.count(0..=1_024).map(|value| to.guest_threads = (value > 0).then_some(value)) },
    Key { name: "tick", set: |to, from| from.duration(MILLISECOND..=MILLISECOND * 10, "5ms").map(|value| to.tick = value) },
    Key {
        name: "cache_dir",
        set: |to, from| {
            let read = |text: &str| Some((!text.is_empty()).then(|| PathBuf::from(text)));
            from.word("a folder such as \"/var/cache/relaybus\"", read).map(|value| to.cache_dir = value)
        },
    },
    Key {
        name: "stack",
        set: |to, from| from.size(64 * KIB..=64 * MIB, "1MiB").map(|value| to.stack_bytes = usize::try_from(value).unwrap_or(usize::MAX)),
    },
    Key {
        name: "pooling",
        set: |to, from| {
            let read = |text: &str| match text {
                "auto" => Some(Pooling::Auto),
                "off" => Some(Pooling::Off),
                _ => None,
            };
            from.word("\"auto\" or \"off\"", read).map(|value| to.pooling = value)
        },
    },
];

/// `[publish]`: what is accepted as an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishSettings {
    /// The largest payload, in bytes.
    pub max_payload_bytes: u64,
}

impl Default for PublishSettings {
    fn default() -> Self {
        Self { max_payload_bytes: MIB }
    }
}

pub(super) const PUBLISH: Keys<PublishSettings> =
    &[Key { name: "max_payload", set: |to, from| from.size(KIB..=256 * MIB, "1MiB").map(|value| to.max_payload_bytes = value) }];

pub(super) const RETENTION: Keys<Retention> = &[
    Key { name: "completed", set: |to, from| from.duration(Duration::ZERO..=DAY * 3_650, "1d").map(|value| to.completed = value) },
    Key { name: "buried", set: |to, from| from.duration(Duration::ZERO..=DAY * 3_650, "14d").map(|value| to.buried = value) },
];

/// `[log]`: what the host says on stderr.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSettings {
    /// A level, or `tracing` directives such as `info,relaybus_host::dispatch=debug`.
    pub level: String,
    pub format: LogFormat,
}

/// How a log line is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

impl Default for LogSettings {
    fn default() -> Self {
        Self { level: "info".to_owned(), format: LogFormat::Text }
    }
}

pub(super) const LOG: Keys<LogSettings> = &[
    Key {
        name: "level",
        set: |to, from| {
            // A bare word that is no level would be taken for the name of a module, and turn everything else off.
            let is_level = |word: &str| word.contains(['=', '[']) || word.trim().parse::<tracing::level_filters::LevelFilter>().is_ok();
            let is_filter = |text: &str| text.split(',').all(is_level) && tracing_subscriber::EnvFilter::try_new(text).is_ok();
            let read = |text: &str| is_filter(text).then(|| text.to_owned());
            from.word("a level such as \"info\", or \"info,relaybus_host::dispatch=debug\"", read).map(|value| to.level = value)
        },
    },
    Key {
        name: "format",
        set: |to, from| {
            let read = |text: &str| match text {
                "text" => Some(LogFormat::Text),
                "json" => Some(LogFormat::Json),
                _ => None,
            };
            from.word("\"text\" or \"json\"", read).map(|value| to.format = value)
        },
    },
];

//! The settings of one handler: the defaults, what its component asks for, and what the configuration file insists on.

use std::time::Duration;

use super::document::Entry;
use super::written::Written;
use super::{Key, Keys, Origin, Problem, key};
use crate::policy::RetryPolicy;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const MILLISECOND: Duration = Duration::from_millis(1);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Longer delays are most likely a mistake, and stay far from what the stores' date types can hold.
const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// How a handler is run, and what its runs may use. Each limit is reported by its name when a run hits it.
#[derive(Clone, Debug, PartialEq)]
pub struct HandlerSettings {
    /// The longest run.
    pub timeout: Duration,
    /// The run after which a failure buries the delivery.
    pub max_attempts: u32,
    /// How many leases may expire under a delivery before it is buried (R8).
    pub max_crashes: u32,
    /// The most runs at a time on this host; `None` leaves it to the host's own limit.
    pub concurrency: Option<u32>,
    pub retry: RetryPolicy,
    /// Linear memory of one run.
    pub memory_bytes: u64,
    /// Table elements of one run.
    pub table_elements: u32,
    /// Data that one host call may take from the guest.
    pub host_call_bytes: u64,
    /// Resource handles that one run may hold.
    pub handles: u32,
    /// Log lines, stdout and stderr kept of one run.
    pub output_bytes: usize,
    /// Events that one run may publish.
    pub max_published_events: u32,
}

impl Default for HandlerSettings {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(5 * 60),
            max_attempts: 10,
            max_crashes: 5,
            concurrency: None,
            retry: RetryPolicy::default(),
            memory_bytes: 128 * MIB,
            table_elements: 100_000,
            host_call_bytes: 16 * MIB,
            handles: 1_000,
            output_bytes: 64 * 1024,
            max_published_events: 1_000,
        }
    }
}

pub(super) const KEYS: Keys<HandlerSettings> = &[
    Key { name: "timeout", set: |to, from| from.duration(MILLISECOND * 10..=DAY, "5m").map(|value| to.timeout = value) },
    Key { name: "max_attempts", set: |to, from| from.count(1..=10_000).map(|value| to.max_attempts = value) },
    Key { name: "max_crashes", set: |to, from| from.count(1..=10_000).map(|value| to.max_crashes = value) },
    Key { name: "concurrency", set: |to, from| from.count(0..=10_000).map(|value| to.concurrency = (value > 0).then_some(value)) },
    Key {
        name: "retry_initial_delay",
        set: |to, from| from.duration(MILLISECOND..=YEAR, "1s").map(|value| to.retry.initial_delay = value),
    },
    Key { name: "retry_factor", set: |to, from| from.ratio(1.0..=100.0).map(|value| to.retry.factor = value) },
    Key { name: "retry_max_delay", set: |to, from| from.duration(MILLISECOND..=YEAR, "15m").map(|value| to.retry.max_delay = value) },
    Key { name: "retry_jitter", set: |to, from| from.ratio(0.0..=1.0).map(|value| to.retry.jitter = value) },
    Key { name: "max_snoozes", set: |to, from| from.count(0..=u32::MAX).map(|value| to.retry.max_snoozes = value) },
    Key { name: "memory", set: |to, from| from.size(MIB..=4096 * MIB, "128MiB").map(|value| to.memory_bytes = value) },
    Key { name: "table_elements", set: |to, from| from.count(1..=10_000_000).map(|value| to.table_elements = value) },
    Key { name: "host_call_data", set: |to, from| from.size(64 * KIB..=4096 * MIB, "16MiB").map(|value| to.host_call_bytes = value) },
    Key { name: "handles", set: |to, from| from.count(16..=1_000_000).map(|value| to.handles = value) },
    Key {
        name: "output",
        set: |to, from| from.size(0..=16 * MIB, "64KiB").map(|value| to.output_bytes = usize::try_from(value).unwrap_or(usize::MAX)),
    },
    Key { name: "max_published_events", set: |to, from| from.count(0..=1_000_000).map(|value| to.max_published_events = value) },
];

/// What the configuration file says of one handler, kept as written until the handler's component is known.
#[derive(Clone, Debug, PartialEq)]
pub struct Overrides {
    section: String,
    entries: Vec<Entry>,
}

impl Overrides {
    pub(super) const fn new(section: String, entries: Vec<Entry>) -> Self {
        Self { section, entries }
    }
}

impl HandlerSettings {
    /// The settings of a handler: `defaults`, over them the options of its component's descriptor, over those the file's `overrides`.
    ///
    /// # Errors
    /// Every problem of the options and overrides.
    pub fn resolve(defaults: &Self, options: &[(String, String)], overrides: Option<&Overrides>) -> Result<Self, Vec<Problem>> {
        let (mut settings, mut problems) = (defaults.clone(), Vec::new());
        let entries: Vec<_> = options
            .iter()
            .map(|(key, value)| Entry { key: key.clone(), value: Written::Text(value.clone()), origin: Origin::Descriptor })
            .collect();
        key::apply(KEYS, &mut settings, "", &entries, &mut problems);
        for (index, entry) in entries.iter().enumerate() {
            if entries[..index].iter().any(|before| before.key == entry.key) {
                let message = format!("expected once, got it again as {}", entry.value);
                problems.push(Problem { origin: Origin::Descriptor, key: entry.key.clone(), message });
            }
        }
        if let Some(Overrides { section, entries }) = overrides {
            key::apply(KEYS, &mut settings, section, entries, &mut problems);
        }
        if let (true, Some(message)) = (problems.is_empty(), settings.contradictions()) {
            let written = overrides.iter().flat_map(|overrides| &overrides.entries).find(|entry| entry.key.starts_with("retry_"));
            let origin = written.map_or(Origin::Descriptor, |entry| entry.origin.clone());
            problems.push(Problem { origin, key: "retry_max_delay".to_owned(), message });
        }
        if problems.is_empty() { Ok(settings) } else { Err(problems) }
    }

    /// Settings that are right by themselves and wrong together.
    pub(super) fn contradictions(&self) -> Option<String> {
        (self.retry.max_delay < self.retry.initial_delay).then(|| {
            format!(
                "expected at least `retry_initial_delay` ({}), got {}",
                humantime::format_duration(self.retry.initial_delay),
                humantime::format_duration(self.retry.max_delay),
            )
        })
    }
}

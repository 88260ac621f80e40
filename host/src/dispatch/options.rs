//! What a dispatcher is started with.

use std::time::Duration;

use crate::config::HandlerSettings;
use crate::delivery::{ClaimedDelivery, HandlerId};
use crate::engine::{Abort, Component, Limits, Run};
use crate::store::{StoreError, Subscribe};
use crate::topic::TopicPattern;

/// A handler that this worker serves.
#[derive(Clone)]
pub struct Served {
    pub tenant: String,
    pub name: String,
    pub component: Component,
    pub topics: Vec<TopicPattern>,
    pub settings: HandlerSettings,
    /// Given by the store when the dispatcher starts.
    pub(super) id: HandlerId,
}

impl Served {
    pub const fn new(tenant: String, name: String, component: Component, topics: Vec<TopicPattern>, settings: HandlerSettings) -> Self {
        Self { tenant, name, component, topics, settings, id: HandlerId(0) }
    }

    /// What the store is told of this handler.
    pub fn subscription(&self) -> Subscribe {
        Subscribe {
            tenant: self.tenant.clone(),
            name: self.name.clone(),
            digest: self.component.digest().to_owned(),
            topics: self.topics.clone(),
            max_attempts: self.settings.max_attempts,
            max_crashes: self.settings.max_crashes,
        }
    }

    /// A run of this handler, with everything that its settings say.
    pub fn run(&self, delivery: ClaimedDelivery, max_payload_bytes: u64, abort: Abort) -> Run {
        let settings = &self.settings;
        let limits = Limits {
            memory_bytes: settings.memory_bytes,
            table_elements: settings.table_elements,
            host_call_bytes: settings.host_call_bytes,
            handles: settings.handles,
            output_bytes: settings.output_bytes,
            published_events: settings.max_published_events,
            payload_bytes: max_payload_bytes,
        };
        Run { delivery, tenant: self.tenant.clone(), timeout: settings.timeout, limits, abort }
    }
}

/// How a dispatcher works.
#[derive(Clone, Debug)]
pub struct DispatcherOptions {
    /// Runs at a time.
    pub concurrency: u32,
    /// The most deliveries that wait, leased, for a free run slot (R6).
    pub prefetch: u32,
    /// The most payload bytes of those.
    pub prefetch_bytes: u64,
    pub lease_duration: Duration,
    /// The longest time between two looks for work, jittered down to half of it.
    pub poll_interval: Duration,
    /// The most payload of an event that a handler publishes, in bytes.
    pub max_payload_bytes: u64,
}

impl Default for DispatcherOptions {
    fn default() -> Self {
        Self {
            concurrency: 64,
            prefetch: 500,
            prefetch_bytes: 32 * 1024 * 1024,
            lease_duration: Duration::from_secs(30),
            poll_interval: Duration::from_secs(1),
            max_payload_bytes: 1024 * 1024,
        }
    }
}

/// A handler could not be subscribed, so nothing was started.
#[derive(Debug, thiserror::Error)]
#[error("handler `{handler}` could not be subscribed")]
pub struct StartError {
    pub handler: String,
    pub source: StoreError,
}

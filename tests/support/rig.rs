//! A host within the test: one database, one engine, and as many dispatchers as the test asks for.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use relaybus_host::config::HandlerSettings;
use relaybus_host::delivery::{DeliveryId, EventId, NewEvent};
use relaybus_host::dispatch::{Dispatcher, DispatcherOptions, Served};
use relaybus_host::engine::{Engine, EngineOptions};
use relaybus_host::store::{self, Backend, DeliverySummary, List, OpenStore, Store, StoreOptions};

use crate::guests;
use crate::stores::Database;

/// Longer than anything here should take, on a machine that others use too.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// One engine for all tests of a process, with a compile cache that outlives it.
fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| {
        let cache = Some(PathBuf::from(env!("RELAYBUS_GUESTS")).join("compiled"));
        Engine::new(EngineOptions { cache, ..EngineOptions::default() }).expect("an engine")
    })
}

/// See the module.
pub struct Rig {
    pub opened: OpenStore,
    pub url: String,
    database: Database,
}

impl Rig {
    pub async fn new() -> Self {
        Self::on(Backend::Sqlite).await
    }

    pub async fn on(backend: Backend) -> Self {
        let database = Database::create(backend).await.expect("a database");
        let url = database.url.clone();
        let opened = store::open(&url, StoreOptions::default()).await.expect("an open store");
        Self { opened, url, database }
    }

    /// Closes the store and removes its database. A file goes by itself as well.
    pub async fn remove(self) {
        self.opened.store.close().await;
        self.database.remove().await;
    }

    /// The guest as a handler, with `change` made to the settings that its own options give.
    pub async fn handler(guest: &str, change: impl FnOnce(&mut HandlerSettings)) -> Served {
        let component = engine().load(&guests::component(guest)).await.unwrap_or_else(|error| panic!("{error}"));
        let descriptor = component.descriptor().clone();
        let topics = descriptor.topics.iter().map(|topic| topic.parse().expect("a topic pattern")).collect();
        let mut settings = HandlerSettings::default();
        settings.retry.initial_delay = Duration::from_millis(20);
        settings.retry.max_delay = Duration::from_millis(100);
        change(&mut settings);
        Served::new("default".to_owned(), descriptor.name, component, topics, settings)
    }

    /// Short leases and polls, so that takeovers do not take half a minute.
    pub fn options() -> DispatcherOptions {
        DispatcherOptions { concurrency: 8, lease_duration: Duration::from_secs(2), ..DispatcherOptions::default() }
    }

    pub async fn start(&self, handlers: Vec<Served>) -> Dispatcher {
        Self::start_over(self.opened.store.clone(), handlers, Self::options()).await
    }

    pub async fn start_over(store: Arc<dyn Store>, handlers: Vec<Served>, options: DispatcherOptions) -> Dispatcher {
        Dispatcher::start(store, handlers, options).await.expect("a dispatcher")
    }

    pub async fn publish(&self, topic: &str, payload: serde_json::Value) -> EventId {
        let event = NewEvent::new(topic.parse().expect("a topic"), payload.to_string());
        let mut answers = self.opened.store.publish(vec![event]).await.expect("a publish");
        answers.remove(0).expect("an accepted event").event
    }

    /// Publishes to a topic that `handler` does not subscribe to yet by itself: it is subscribed first.
    pub async fn publish_for(&self, handler: &str, topic: &str, payload: serde_json::Value) -> EventId {
        let served = Self::handler(handler, |_| {}).await;
        let request = store::Subscribe {
            tenant: served.tenant,
            name: served.name,
            digest: served.component.digest().to_owned(),
            topics: served.topics,
            max_attempts: served.settings.max_attempts,
            max_crashes: served.settings.max_crashes,
        };
        self.opened.store.subscribe(request).await.expect("a subscription");
        self.publish(topic, payload).await
    }

    pub async fn deliveries(&self) -> Vec<DeliverySummary> {
        self.opened.operators.list(List { limit: 10_000, ..List::default() }).await.expect("a list")
    }

    /// The only delivery of `event`.
    pub async fn delivery(&self, event: EventId) -> DeliverySummary {
        let all = self.deliveries().await;
        all.into_iter().find(|delivery| delivery.event_id == event).expect("a delivery of the event")
    }

    pub async fn records(&self, id: DeliveryId) -> Vec<store::AttemptRecord> {
        self.opened.operators.show(id).await.expect("a delivery").attempt_records
    }

    /// Waits until the only delivery of `event` is as it should be.
    ///
    /// # Panics
    /// With `what` and the delivery, if that takes too long.
    pub async fn until(&self, event: EventId, what: &str, is_so: impl Fn(&DeliverySummary) -> bool) -> DeliverySummary {
        let deadline = std::time::Instant::now() + PATIENCE;
        loop {
            let delivery = self.delivery(event).await;
            if is_so(&delivery) {
                return delivery;
            }
            assert!(std::time::Instant::now() < deadline, "expected a delivery that {what}, got {delivery:#?}");
            crate::pause().await;
        }
    }
}

/// Waits until nothing is left to do.
///
/// # Panics
/// If that takes too long.
pub async fn until_idle(dispatcher: &Dispatcher) {
    let idle = tokio::time::timeout(PATIENCE * 3, dispatcher.until_idle(|_| {})).await;
    assert!(idle.is_ok(), "expected an idle dispatcher, got {:?} and {} held", dispatcher.counts(), dispatcher.n_held());
}

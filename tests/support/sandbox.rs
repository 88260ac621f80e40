//! Single runs of guests, with neither a store nor a dispatcher around them.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use relaybus_host::clock::Instant;
use relaybus_host::delivery::{ClaimedDelivery, DeliveryId, EventId, HandlerId};
use relaybus_host::engine::{Abort, Component, Engine, EngineOptions, Limits, Run};
use relaybus_host::verdict::RunReport;

use crate::guests;

/// Longer than anything here should take, on a machine that others use too.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// What an abort may take on a machine that others use too. Benchmarks measure it better.
pub const GRACE: Duration = Duration::from_millis(500);

/// The defaults, with a compile cache that outlives the process.
pub fn options() -> EngineOptions {
    EngineOptions { cache: Some(PathBuf::from(env!("RELAYBUS_GUESTS")).join("compiled")), ..EngineOptions::default() }
}

/// An engine of the caller's own.
///
/// # Panics
/// If the machine does not allow it.
pub fn engine(options: EngineOptions) -> Engine {
    Engine::new(options).expect("an engine")
}

/// The guest, loaded into the engine that the tests of a process share.
///
/// # Panics
/// If it cannot be loaded.
pub async fn guest(name: &str) -> Component {
    static SHARED: OnceLock<Engine> = OnceLock::new();
    load(SHARED.get_or_init(|| engine(options())), name).await
}

/// The guest, loaded into `engine`.
///
/// # Panics
/// If it cannot be loaded.
pub async fn load(engine: &Engine, name: &str) -> Component {
    engine.load(&guests::component(name)).await.unwrap_or_else(|error| panic!("{error}"))
}

/// A first attempt of a delivery with this payload, nothing else about it being special.
pub fn delivery(payload: impl Into<String>) -> ClaimedDelivery {
    let event_id = EventId::new();
    ClaimedDelivery {
        id: DeliveryId::derive(event_id, "default", "guest"),
        event_id,
        handler: HandlerId(1),
        topic: "guest.test".parse().expect("a topic"),
        key: None,
        attempt: 1,
        max_attempts: 5,
        crashes: 0,
        snoozes: 0,
        published_at: chrono::Utc::now(),
        content_type: "application/json".to_owned(),
        headers: Vec::new(),
        payload: payload.into().into(),
    }
}

/// A run of `delivery` with time enough and the default limits.
pub fn run_of(delivery: ClaimedDelivery) -> Run {
    Run {
        delivery,
        tenant: "default".to_owned(),
        timeout: PATIENCE,
        limits: Limits::default(),
        abort: Abort::new(Instant::now() + PATIENCE * 2),
    }
}

/// Runs the guest once on a delivery with this payload.
pub async fn run(name: &str, payload: impl Into<String>) -> RunReport {
    guest(name).await.run(run_of(delivery(payload))).await
}

/// The same, with `change` made to the run.
pub async fn run_with(name: &str, payload: impl Into<String>, change: impl FnOnce(&mut Run)) -> RunReport {
    let mut run = run_of(delivery(payload));
    change(&mut run);
    guest(name).await.run(run).await
}

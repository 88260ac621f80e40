//! When each worker begins and ends a run of a delivery, as its log says: whether runs overlap (R10).

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};

/// What the logs of this process have said of runs.
#[derive(Clone, Default)]
pub struct Runs(Arc<Mutex<Seen>>);

#[derive(Default)]
struct Seen {
    /// What each worker runs.
    running: HashMap<String, HashSet<String>>,
    n_started: usize,
    overlaps: Vec<String>,
}

/// The fields of a log line about a run.
#[derive(Default)]
struct Line {
    message: String,
    worker: String,
    delivery: String,
}

impl Runs {
    /// Listens from now on to all dispatchers of the process.
    ///
    /// # Panics
    /// If something else listens already.
    pub fn listen() -> Self {
        let runs = Self::default();
        tracing::subscriber::set_global_default(tracing_subscriber::registry().with(runs.clone())).expect("nobody else listens");
        runs
    }

    /// Runs of a delivery that began on a worker while it still ran there.
    pub fn overlaps(&self) -> Vec<String> {
        self.seen(|seen| seen.overlaps.clone())
    }

    pub fn n_started(&self) -> usize {
        self.seen(|seen| seen.n_started)
    }

    fn seen<T>(&self, look: impl FnOnce(&mut Seen) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<S: Subscriber> Layer<S> for Runs {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if !event.metadata().target().starts_with("relaybus_host::dispatch") {
            return;
        }
        let mut line = Line::default();
        event.record(&mut line);
        let Line { message, worker, delivery } = line;
        self.seen(|seen| match message.as_str() {
            "run started" => {
                seen.n_started += 1;
                if !seen.running.entry(worker.clone()).or_default().insert(delivery.clone()) {
                    seen.overlaps.push(format!("worker {worker} began a run of {delivery} that it was still running"));
                }
            }
            "run ended" => {
                seen.running.entry(worker).or_default().remove(&delivery);
            }
            _ => {}
        });
    }
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let place = match field.name() {
            "message" => &mut self.message,
            "worker" => &mut self.worker,
            "delivery" => &mut self.delivery,
            _ => return,
        };
        *place = format!("{value:?}");
    }
}

//! The dispatcher: claim, run, settle, in one loop that owns all its state.
//!
//! It never waits for anything but the next event, and never holds a lock: every call to the store and every run is a future among
//! [`Worker::tasks`], and what it answers comes back as an [`Event`].

mod options;
mod held;
mod claim;
mod run;
mod settle;
mod renew;
mod drain;
mod outage;
mod counts;
mod backoff;

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

pub use counts::Counts;
pub use drain::StopReport;
pub use options::{DispatcherOptions, Served, StartError};

use crate::delivery::{DeliveryId, HandlerId, WorkerId};
use crate::store::Store;
use crate::verdict::RunReport;
use claim::{ClaimAnswer, Claiming};
use counts::SharedCounts;
use drain::{Drain, StopRequest};
use held::Held;
use outage::Outage;
use renew::RenewalAnswer;
use settle::{SettleAnswer, Settling};

/// A running dispatcher. Dropping it abandons its runs with their leases; [`Dispatcher::stop`] ends it in order.
pub struct Dispatcher {
    worker: WorkerId,
    store: Arc<dyn Store>,
    handlers: Vec<HandlerId>,
    counts: Arc<SharedCounts>,
    n_held: watch::Receiver<usize>,
    stops: mpsc::Sender<StopRequest>,
    worker_loop: JoinHandle<StopReport>,
}

/// What the loop can learn. Closed.
enum Event {
    /// A claim, or reading one back, has answered.
    Claimed(ClaimAnswer),
    /// A run has ended.
    Ended(DeliveryId, RunReport),
    /// A batch of settlements has been answered.
    Settled(SettleAnswer),
    /// A round of renewals has been answered.
    Renewed(RenewalAnswer),
    /// The store says that there may be work.
    Woken,
    /// The next of the worker's own timers is due.
    TimerDue,
    /// Somebody wants the dispatcher to stop.
    Stop(StopRequest),
}

/// The state of the loop. Nobody else reads or writes it; each field names the part that it belongs to.
struct Worker {
    id: WorkerId,
    store: Arc<dyn Store>,
    handlers: Vec<Served>,
    options: DispatcherOptions,
    counts: Arc<SharedCounts>,
    /// Everything under a lease of ours: prefetched, running, or being settled.
    held: Held,
    claiming: Claiming,
    settling: Settling,
    /// Runs in a row that the host itself could not make.
    n_faults: u32,
    next_renewal_at: tokio::time::Instant,
    is_renewing: bool,
    drain: Option<Drain>,
    /// Whether the store has gone, as the last answers of claims, settlements and renewals tell.
    outage: Outage,
    tasks: FuturesUnordered<BoxFuture<'static, Event>>,
}

impl Dispatcher {
    /// Subscribes the handlers at the store and begins to claim for them.
    ///
    /// # Errors
    /// If a handler cannot be subscribed; nothing runs then.
    pub async fn start(store: Arc<dyn Store>, mut handlers: Vec<Served>, options: DispatcherOptions) -> Result<Self, StartError> {
        for served in &mut handlers {
            served.subscribe(store.as_ref()).await?;
        }
        let counts = Arc::new(SharedCounts::default());
        let (stops, stop_requests) = mpsc::channel(1);
        let (n_held_sender, n_held) = watch::channel(0);
        let ids = handlers.iter().map(|served| served.id).collect();
        let worker = Worker::new(store.clone(), handlers, options, counts.clone());
        let id = worker.id;
        tracing::info!(worker = %id, "dispatcher started");
        let worker_loop = tokio::spawn(worker.run(stop_requests, n_held_sender));
        Ok(Self { worker: id, store, handlers: ids, counts, n_held, stops, worker_loop })
    }

    pub const fn worker(&self) -> WorkerId {
        self.worker
    }

    /// How many runs were settled how, since the start.
    pub fn counts(&self) -> Counts {
        self.counts.read()
    }

    /// How many deliveries the worker holds a lease of right now.
    pub fn n_held(&self) -> usize {
        *self.n_held.borrow()
    }

    /// Returns once nothing is pending or processing for the handlers, retries and the runs of other hosts included.
    ///
    /// `on_wait` is told what is waited for, each time it was looked at.
    pub async fn until_idle(&self, mut on_wait: impl FnMut(crate::store::Backlog)) {
        const LOOK_AGAIN: Duration = Duration::from_millis(250);
        let mut n_held = self.n_held.clone();
        let mut is_unknown = false;
        loop {
            if n_held.wait_for(|n| *n == 0).await.is_err() {
                return;
            }
            match self.store.backlog(&self.handlers).await {
                Ok(backlog) if backlog.n_pending == 0 && backlog.n_processing == 0 => return,
                Ok(backlog) => {
                    is_unknown = false;
                    on_wait(backlog);
                }
                Err(error) if std::mem::replace(&mut is_unknown, true) => {
                    tracing::debug!(error = &error as &dyn std::error::Error, "backlog is still unknown");
                }
                Err(error) => tracing::warn!(error = &error as &dyn std::error::Error, "backlog is unknown, it will be asked for again"),
            }
            // Either something is claimed, and its end is worth a look at once, or nothing is due yet.
            let claimed = tokio::time::timeout(LOOK_AGAIN, n_held.wait_for(|n| *n > 0)).await;
            if let Ok(Err(_)) = claimed {
                return;
            }
        }
    }

    /// Returns if the loop has ended though nobody has asked it to: then it has panicked, and [`stop`](Self::stop) passes the panic on.
    pub async fn has_panicked(&self) {
        let mut n_held = self.n_held.clone();
        while n_held.changed().await.is_ok() {}
    }

    /// Stops in order, within `timeout` (R21): claims nothing more, releases what has not started, lets runs go on for four fifths of it,
    /// aborts and releases the rest. What is still in flight at the end is abandoned with its lease, and named in the report.
    pub async fn stop(self, timeout: Duration) -> StopReport {
        // The loop only ends after a stop, so it takes the request unless it panicked; then the join below says so.
        let _ = self.stops.send(StopRequest::new(timeout)).await;
        match self.worker_loop.await {
            Ok(report) => report,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }
}

impl Worker {
    fn new(store: Arc<dyn Store>, handlers: Vec<Served>, options: DispatcherOptions, counts: Arc<SharedCounts>) -> Self {
        Self {
            id: WorkerId::random(),
            held: Held::new(handlers.len()),
            claiming: Claiming::new(handlers.len()),
            settling: Settling::default(),
            n_faults: 0,
            next_renewal_at: tokio::time::Instant::now() + crate::lease::renewal_interval(options.lease_duration),
            is_renewing: false,
            drain: None,
            outage: Outage::default(),
            tasks: FuturesUnordered::new(),
            store,
            handlers,
            options,
            counts,
        }
    }

    /// The loop: do what can be done, wait for the next event, learn from it.
    async fn run(mut self, mut stops: mpsc::Receiver<StopRequest>, n_held: watch::Sender<usize>) -> StopReport {
        loop {
            self.drain_if_stopping();
            self.claim_if_due();
            self.start_runs();
            self.settle_what_ended();
            self.renew_if_due();
            n_held.send_if_modified(|n| std::mem::replace(n, self.held.len()) != self.held.len());
            if let Some(report) = self.ended() {
                return report;
            }
            let next_timer = self.next_timer();
            let event = tokio::select! {
                biased;
                Some(request) = stops.recv() => Event::Stop(request),
                Some(event) = self.tasks.next() => event,
                () = tokio::time::sleep_until(next_timer) => Event::TimerDue,
            };
            self.learn(event);
            while let Some(Some(event)) = self.tasks.next().now_or_never() {
                self.learn(event);
            }
        }
    }

    fn learn(&mut self, event: Event) {
        match event {
            Event::Claimed(answer) => self.on_claimed(answer),
            Event::Ended(id, report) => self.on_ended(id, report),
            Event::Settled(answer) => self.on_settled(answer),
            Event::Renewed(answer) => self.on_renewed(answer),
            Event::Woken => self.on_woken(),
            Event::TimerDue => {}
            Event::Stop(request) => self.on_stop(request),
        }
    }

    /// When the loop must look again though no event came.
    fn next_timer(&self) -> tokio::time::Instant {
        let timers = [self.next_claim_timer(), self.settling.retry_at(), self.next_renewal_timer(), self.next_drain_timer()];
        let far = tokio::time::Instant::now() + Duration::from_secs(3600);
        timers.into_iter().flatten().min().unwrap_or(far)
    }
}

impl Served {
    async fn subscribe(&mut self, store: &dyn Store) -> Result<(), StartError> {
        let digest = self.component.digest().to_owned();
        let subscribed = store.subscribe(self.subscription()).await.map_err(|source| StartError { handler: self.name.clone(), source })?;
        self.id = subscribed.handler;
        match subscribed.previous_digest {
            Some(previous) if previous != digest => {
                tracing::info!(handler = %self.name, previous, digest, "handler subscribed with a new component");
            }
            _ => tracing::info!(handler = %self.name, digest, "handler subscribed"),
        }
        Ok(())
    }
}

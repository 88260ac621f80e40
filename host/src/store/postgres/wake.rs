//! Wakes waiting workers: those of this process at once, those of others by NOTIFY, at most once per 10 ms.
//!
//! A notification is a hint. Whatever goes wrong here, workers still poll; and none of it ever takes a connection from the calls.

use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgListener, PgPool, PgPoolOptions};
use tokio::sync::{Mutex, Notify};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use uuid::Uuid;

use super::connect::Settings;
use crate::store::work_signal::WorkSignal;

const CHANNEL: &str = "relaybus_work";
/// Notifications serialise the commits that send them, so many publishes share one.
const COALESCE: Duration = Duration::from_millis(10);
/// A listener that lost its connection tries again after this long; the poll covers the time between.
const RECONNECT: Duration = Duration::from_secs(1);
/// A connection can die without a word, so one that has been silent for this long is asked for an answer.
const PING: Duration = Duration::from_secs(15);

/// The signal of this process, and the task that ties it to those of others.
pub(super) struct Wake {
    signal: Arc<WorkSignal>,
    to_notify: Arc<Notify>,
    pool: PgPool,
    task: Mutex<Option<JoinHandle<()>>>,
}

/// What the task works with.
struct Exchange {
    pool: PgPool,
    signal: Arc<WorkSignal>,
    to_notify: Arc<Notify>,
    /// Tells the notifications of this process, which is awake, from those of others.
    process: String,
    call_timeout: Duration,
}

impl Wake {
    pub(super) fn start(settings: &Settings, call_timeout: Duration) -> Self {
        let (signal, to_notify) = (Arc::new(WorkSignal::new()), Arc::new(Notify::new()));
        let pool = PgPoolOptions::new().max_connections(1).acquire_timeout(call_timeout).connect_lazy_with(settings.connect.clone());
        let exchange = Exchange {
            pool: pool.clone(),
            signal: Arc::clone(&signal),
            to_notify: Arc::clone(&to_notify),
            process: Uuid::new_v4().to_string(),
            call_timeout,
        };
        let task = Mutex::new(Some(tokio::spawn(exchange.run())));
        Self { signal, to_notify, pool, task }
    }

    pub(super) fn signal(&self) -> &WorkSignal {
        &self.signal
    }

    /// Something may have become due.
    pub(super) fn arrived(&self) {
        self.signal.arrived();
        self.to_notify.notify_one();
    }

    pub(super) async fn close(&self) {
        if let Some(task) = self.task.lock().await.take() {
            task.abort();
            // It ends as cancelled, which is what was asked for.
            let _ = task.await;
        }
        self.pool.close().await;
    }
}

impl Exchange {
    async fn run(self) {
        loop {
            if let Err(error) = self.run_until_lost().await {
                tracing::debug!(error = &error as &dyn std::error::Error, "wake-ups between hosts were interrupted, workers poll");
            }
            sleep(RECONNECT).await;
        }
    }

    async fn run_until_lost(&self) -> sqlx::Result<()> {
        let mut listener = PgListener::connect_with(&self.pool).await?;
        listener.eager_reconnect(false);
        self.in_time(listener.listen(CHANNEL)).await?;
        // What came before the listener was there is looked for once.
        self.signal.arrived();
        let mut notify_from = Instant::now();
        loop {
            let may_notify = async {
                sleep_until(notify_from).await;
                self.to_notify.notified().await;
            };
            tokio::select! {
                received = listener.try_recv() => match received? {
                    Some(notification) if notification.payload() == self.process => {}
                    Some(_) => self.signal.arrived(),
                    None => return Ok(()),
                },
                () = may_notify => {
                    let notify = sqlx::query("select pg_notify($1, $2)").bind(CHANNEL).bind(&self.process);
                    self.in_time(notify.execute(&mut listener)).await?;
                    notify_from = Instant::now() + COALESCE;
                }
                () = sleep(PING) => {
                    self.in_time(sqlx::query("select 1").execute(&mut listener)).await?;
                }
            }
        }
    }

    async fn in_time<T>(&self, call: impl Future<Output = sqlx::Result<T>>) -> sqlx::Result<T> {
        timeout(self.call_timeout, call).await.unwrap_or(Err(sqlx::Error::PoolTimedOut))
    }
}

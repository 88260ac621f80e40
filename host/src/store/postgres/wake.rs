//! Wakes waiting workers: those of this process at once, those of others by NOTIFY, at most once per 10 ms.

use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgListener, PgPool};
use tokio::sync::{Mutex, Notify};
use tokio::task::JoinHandle;

use crate::store::work_signal::WorkSignal;

const CHANNEL: &str = "relaybus_work";
/// Notifications serialise the commits that send them, so many publishes share one.
const COALESCE: Duration = Duration::from_millis(10);
/// A listener that lost its connection tries again after this long; the poll covers the time between.
const RECONNECT: Duration = Duration::from_secs(1);

/// The signal of this process, and the two tasks that tie it to those of others.
pub(super) struct Wake {
    signal: Arc<WorkSignal>,
    to_notify: Arc<Notify>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl Wake {
    pub(super) fn start(pool: PgPool) -> Self {
        let signal = Arc::new(WorkSignal::new());
        let to_notify = Arc::new(Notify::new());
        let listening = tokio::spawn(listen(pool.clone(), signal.clone()));
        let notifying = tokio::spawn(notify(pool, to_notify.clone()));
        Self { signal, to_notify, tasks: Mutex::new(vec![listening, notifying]) }
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
        for task in self.tasks.lock().await.drain(..) {
            task.abort();
            // It ends as cancelled, which is what was asked for.
            let _ = task.await;
        }
    }
}

async fn listen(pool: PgPool, signal: Arc<WorkSignal>) {
    loop {
        if let Err(error) = listen_until_lost(&pool, &signal).await {
            tracing::debug!(error = &error as &dyn std::error::Error, "listening for work was interrupted");
        }
        tokio::time::sleep(RECONNECT).await;
    }
}

async fn listen_until_lost(pool: &PgPool, signal: &WorkSignal) -> sqlx::Result<()> {
    let mut listener = PgListener::connect_with(pool).await?;
    listener.listen(CHANNEL).await?;
    // What came before the listener was there is looked for once.
    signal.arrived();
    while listener.try_recv().await?.is_some() {
        signal.arrived();
    }
    Ok(())
}

async fn notify(pool: PgPool, to_notify: Arc<Notify>) {
    loop {
        to_notify.notified().await;
        if let Err(error) = sqlx::query("select pg_notify($1, '')").bind(CHANNEL).execute(&pool).await {
            tracing::debug!(error = &error as &dyn std::error::Error, "other hosts were not woken, they poll");
        }
        tokio::time::sleep(COALESCE).await;
    }
}

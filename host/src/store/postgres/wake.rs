//! Wakes waiting workers: those of this process at once, those of others by NOTIFY, at most once per 10 ms.
//!
//! Publishers notify only while some host is registered as idle (`migrations/0002_publish.sql` says why), so a host registers when a claim
//! has left it with room, has its workers claim once more after that, and takes its name off at the first notification.
//!
//! A notification is a hint. Whatever goes wrong here, workers still poll; and none of it ever takes a connection from the calls.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use sqlx::postgres::PgListener;
use tokio::sync::{Mutex, Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use uuid::Uuid;

use super::calls::Calls;
use super::connect::{Sessions, Settings};
use crate::store::work_signal::WorkSignal;
use crate::store::{Result, StoreError, StoreOptions, WakeUps};

const CHANNEL: &str = "relaybus_work";
/// One is used. A listener whose connection went silent keeps it until TCP gives up, because it still says that it no longer listens, and must
/// not keep the next one from listening.
const MAX_CONNECTIONS: u32 = 4;
/// Notifications serialise the commits that send them, so many publishes share one.
const COALESCE: Duration = Duration::from_millis(10);
/// A host is registered as idle no sooner than this after it was woken, so that many publishers at once notify but a few times.
const REGISTER_PAUSE: Duration = Duration::from_millis(20);
/// A listener that lost its connection tries again after this long, and after twice as long each time that it is lost again soon. The poll
/// covers the time between.
const RECONNECT: Duration = Duration::from_millis(100);
const LONGEST_RECONNECT: Duration = Duration::from_secs(5);
/// A connection can die without a word, so one that has been silent for this long is asked for an answer.
const PING: Duration = Duration::from_secs(15);

/// The signal of this process, and the task that ties it to those of others.
pub(super) struct Wake {
    signal: Arc<WorkSignal>,
    to_notify: Arc<Notify>,
    /// Whether the last claim has left room, so that a wake-up is of use. Written by claims and by notifications.
    is_idle: watch::Sender<bool>,
    calls: Calls,
    sessions: Sessions,
    task: Mutex<Option<JoinHandle<()>>>,
}

/// What the task works with.
struct Exchange {
    calls: Calls,
    sessions: Sessions,
    signal: Arc<WorkSignal>,
    to_notify: Arc<Notify>,
    is_idle: watch::Sender<bool>,
    /// Tells the notifications of this process, which is awake, from those of others.
    host: Uuid,
    call_timeout: Duration,
}

impl Wake {
    pub(super) fn start(settings: &Settings, options: &StoreOptions) -> Self {
        let (signal, to_notify, is_idle) = (Arc::new(WorkSignal::new()), Arc::new(Notify::new()), watch::Sender::new(false));
        let (calls, sessions) = (Calls::new(settings, options, MAX_CONNECTIONS), settings.sessions);
        let exchange = Exchange {
            calls: calls.clone(),
            sessions,
            signal: Arc::clone(&signal),
            to_notify: Arc::clone(&to_notify),
            is_idle: is_idle.clone(),
            host: Uuid::new_v4(),
            call_timeout: options.call_timeout,
        };
        let task = Mutex::new(Some(tokio::spawn(exchange.run())));
        Self { signal, to_notify, is_idle, calls, sessions, task }
    }

    /// A lent session cannot listen.
    pub(super) const fn reach(&self) -> WakeUps {
        match self.sessions {
            Sessions::Own => WakeUps::Everywhere,
            Sessions::Lent => WakeUps::Process,
        }
    }

    pub(super) fn signal(&self) -> &WorkSignal {
        &self.signal
    }

    /// Something may have become due.
    pub(super) fn arrived(&self) {
        self.signal.arrived();
        self.to_notify.notify_one();
    }

    /// A claim was answered, and took all that there was or all that it might.
    pub(super) fn has_claimed(&self, has_room_left: bool) {
        self.is_idle.send_if_modified(|is_idle| std::mem::replace(is_idle, has_room_left) != has_room_left);
    }

    pub(super) async fn close(&self) {
        if let Some(task) = self.task.lock().await.take() {
            task.abort();
            // It ends as cancelled, which is what was asked for.
            let _ = task.await;
        }
        self.calls.close().await;
    }
}

impl Exchange {
    async fn run(self) {
        let mut pause = RECONNECT;
        loop {
            let since = Instant::now();
            let interrupted = match self.sessions {
                Sessions::Own => self.run_until_lost().await.map_err(|error| Box::new(error) as Box<dyn std::error::Error + Send>),
                Sessions::Lent => self.only_notify().await.map_err(|error| Box::new(error) as Box<dyn std::error::Error + Send>),
            };
            if let Err(error) = interrupted {
                tracing::debug!(error = &*error as &dyn std::error::Error, "wake-ups between hosts were interrupted, workers poll");
            }
            pause = if since.elapsed() > LONGEST_RECONNECT { RECONNECT } else { pause };
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_RECONNECT);
        }
    }

    /// For the hosts that listen.
    async fn only_notify(&self) -> Result<(), StoreError> {
        loop {
            self.to_notify.notified().await;
            let host = self.host;
            self.calls
                .run("notify", move |connection| sqlx::query(include_str!("sql/wake_notify.sql")).bind(host).execute(connection).boxed())
                .await?;
            sleep(COALESCE).await;
        }
    }

    async fn run_until_lost(&self) -> sqlx::Result<()> {
        let mut listener = PgListener::connect_with(self.calls.pool()).await?;
        listener.eager_reconnect(false);
        self.in_time(listener.listen(CHANNEL)).await?;
        // What came before the listener was there is looked for once.
        self.signal.arrived();
        let (mut notify_from, mut register_from, mut ping_at) = (Instant::now(), Instant::now(), Instant::now() + PING);
        let (mut is_idle, mut is_registered) = (self.is_idle.subscribe(), false);
        loop {
            let may_notify = async {
                sleep_until(notify_from).await;
                self.to_notify.notified().await;
            };
            let registration_is_wrong = async {
                if !is_registered {
                    sleep_until(register_from).await;
                }
                // The sender lives as long as `self`.
                let _ = is_idle.wait_for(|is_idle| *is_idle != is_registered).await;
            };
            tokio::select! {
                received = listener.try_recv() => match received? {
                    Some(notification) if notification.payload().parse() == Ok(self.host) => {}
                    Some(_) => {
                        self.is_idle.send_replace(false);
                        self.signal.arrived();
                    }
                    None => return Ok(()),
                },
                () = may_notify => {
                    self.run_statement(&mut listener, include_str!("sql/wake_notify.sql")).await?;
                    notify_from = Instant::now() + COALESCE;
                }
                () = registration_is_wrong => {
                    if is_registered {
                        self.run_statement(&mut listener, include_str!("sql/wake_take_off.sql")).await?;
                        register_from = Instant::now() + REGISTER_PAUSE;
                    } else {
                        self.run_statement(&mut listener, include_str!("sql/wake_register.sql")).await?;
                        // What was published just before is looked for once more.
                        self.signal.arrived();
                    }
                    is_registered = !is_registered;
                }
                () = sleep_until(ping_at) => {
                    let ping = if is_registered { include_str!("sql/wake_register.sql") } else { "select $1::uuid" };
                    self.run_statement(&mut listener, ping).await?;
                    ping_at = Instant::now() + PING;
                }
            }
        }
    }

    /// Runs a statement whose only parameter is this host.
    async fn run_statement(&self, listener: &mut PgListener, statement: &'static str) -> sqlx::Result<()> {
        self.in_time(sqlx::query(statement).bind(self.host).execute(listener)).await.map(|_| ())
    }

    async fn in_time<T>(&self, call: impl Future<Output = sqlx::Result<T>>) -> sqlx::Result<T> {
        timeout(self.call_timeout, call).await.unwrap_or(Err(sqlx::Error::PoolTimedOut))
    }
}

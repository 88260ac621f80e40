//! Wakes waiting workers, fans out what was left, and keeps the server's time: what a store does beside its calls.
//!
//! Hosts tell each other by writing one document, at most once per 10 ms, which the change streams of the others see; on a standalone server,
//! which has no change streams, they look for themselves. A wake-up is a hint: whatever goes wrong here, workers still poll, and
//! none of it takes a connection from the calls.

use std::sync::Arc;
use std::time::Duration;

use bson::{Document, doc};
use futures::StreamExt;
use mongodb::change_stream::ChangeStream;
use tokio::sync::{Mutex, Notify};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};
use uuid::Uuid;

use super::calls::{Calls, Trouble};
use super::clock::ServerClock;
use super::connect::hello;
use super::documents::{EVENTS, WAKE, id};
use super::fan_out;
use crate::store::work_signal::WorkSignal;

/// Writes of the one document wait for each other, so many publishes share one.
const COALESCE: Duration = Duration::from_millis(10);
/// How often to look for something to fan out that nobody has told of; jittered.
const LOOK: Duration = Duration::from_secs(1);
/// How often to ask for the server's time. It also finds out about a connection that died without a word.
const ASK_TIME: Duration = Duration::from_secs(5);
/// A change stream that was lost is opened again after this long; looking covers the time between.
const REOPEN: Duration = Duration::from_secs(1);

/// The signal of this process, and the task that ties it to those of others.
pub(super) struct Wake {
    signal: Arc<WorkSignal>,
    to_tell: Arc<Notify>,
    task: Mutex<Option<JoinHandle<()>>>,
}

/// What the task works with.
struct Chores {
    calls: Calls,
    clock: Arc<ServerClock>,
    signal: Arc<WorkSignal>,
    to_tell: Arc<Notify>,
    has_change_streams: bool,
    /// Tells the wake-ups of this process, which is awake, from those of others.
    host: Uuid,
}

impl Wake {
    /// `calls` are on connections of their own.
    pub(super) fn start(calls: Calls, clock: Arc<ServerClock>, has_change_streams: bool) -> Self {
        let (signal, to_tell) = (Arc::new(WorkSignal::new()), Arc::new(Notify::new()));
        let (host, their_signal, told) = (Uuid::new_v4(), Arc::clone(&signal), Arc::clone(&to_tell));
        let chores = Chores { calls, clock, signal: their_signal, to_tell: told, has_change_streams, host };
        let task = Mutex::new(Some(tokio::spawn(chores.run())));
        Self { signal, to_tell, task }
    }

    pub(super) fn signal(&self) -> &WorkSignal {
        &self.signal
    }

    /// Something may have become due.
    pub(super) fn arrived(&self) {
        self.signal.arrived();
        self.to_tell.notify_one();
    }

    pub(super) async fn close(&self) {
        if let Some(task) = self.task.lock().await.take() {
            task.abort();
            // It ends as cancelled, which is what was asked for.
            let _ = task.await;
        }
    }
}

impl Chores {
    async fn run(self) {
        let now = Instant::now();
        let (mut tell_from, mut look_at, mut ask_time_at, mut open_at) = (now, now, now + ASK_TIME, now);
        let mut changes: Option<ChangeStream<Document>> = None;
        loop {
            let may_tell = async {
                sleep_until(tell_from).await;
                self.to_tell.notified().await;
            };
            let may_open = self.has_change_streams && changes.is_none();
            let next_change = async {
                match &mut changes {
                    Some(changes) => changes.next().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = may_tell => {
                    self.note("wake_up", self.tell().await);
                    tell_from = Instant::now() + COALESCE;
                }
                change = next_change => match change {
                    Some(Ok(change)) if is_of_an_event(&change) => look_at = Instant::now(),
                    Some(Ok(_)) => self.signal.arrived(),
                    Some(Err(error)) => {
                        self.note("watch", Err(Trouble::from(error)));
                        (changes, open_at) = (None, Instant::now() + REOPEN);
                    }
                    None => (changes, open_at) = (None, Instant::now() + REOPEN),
                },
                () = sleep_until(open_at), if may_open => match self.watch().await {
                    Ok(opened) => {
                        changes = Some(opened);
                        // What came before the stream was there is looked for once.
                        look_at = Instant::now();
                        self.signal.arrived();
                    }
                    Err(trouble) => {
                        self.note("watch", Err(trouble));
                        open_at = Instant::now() + REOPEN;
                    }
                },
                () = sleep_until(look_at) => {
                    self.look().await;
                    look_at = Instant::now() + LOOK.mul_f64(0.5 + rand::random::<f64>() / 2.0);
                }
                () = sleep_until(ask_time_at) => {
                    let answer = hello(&self.calls.database(), self.calls.call_timeout()).await;
                    self.note("ask_time", answer.map(|hello| self.clock.set(hello)));
                    ask_time_at = Instant::now() + ASK_TIME;
                }
            }
        }
    }

    async fn look(&self) {
        match self.calls.run("fan_out", |call| async move { fan_out::left_by_others(&call).await }).await {
            Ok(true) => {
                self.signal.arrived();
                self.to_tell.notify_one();
            }
            Ok(false) => {}
            Err(error) => tracing::debug!(error = &error as &dyn std::error::Error, "what was left to fan out could not be looked for"),
        }
    }

    /// A new value each time: the change is what is seen.
    async fn tell(&self) -> Result<(), Trouble> {
        let told = doc! { "by": id(self.host), "change": id(Uuid::new_v4()) };
        let statement = doc! { "q": { "_id": "work" }, "u": told, "upsert": true };
        let told = self.calls.run("wake_up", |call| async move { call.update(WAKE, vec![statement]).await.map(|_| ()) });
        told.await.map_err(|error| Trouble::Corrupt(error.to_string()))
    }

    /// Changes that are a reason to look: the word of another host, and events that applications have stored.
    async fn watch(&self) -> Result<ChangeStream<Document>, Trouble> {
        let word = doc! { "ns.coll": WAKE, "fullDocument.by": { "$ne": id(self.host) } };
        let event = doc! { "ns.coll": EVENTS, "operationType": "insert", "fullDocument.publishedAt": { "$exists": false } };
        let pipeline = [doc! { "$match": { "$or": [word, event] } }, doc! { "$project": { "ns": 1, "operationType": 1 } }];
        let database = self.calls.database();
        let opening = database.watch().pipeline(pipeline).max_await_time(Duration::from_secs(1));
        let opened = tokio::time::timeout(self.calls.call_timeout(), opening).await.map_err(|_| Trouble::TooLate)??;
        Ok(opened.with_type())
    }

    fn note(&self, operation: &str, result: Result<(), Trouble>) {
        if let Err(trouble) = result {
            tracing::debug!(host = %self.host, operation, ?trouble, "wake-ups between hosts were interrupted, workers poll");
        }
    }
}

fn is_of_an_event(change: &Document) -> bool {
    change.get_document("ns").and_then(|ns| ns.get_str("coll")).is_ok_and(|it| it == EVENTS)
}

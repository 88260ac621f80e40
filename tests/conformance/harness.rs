//! What a case gets: a fresh store, as many openings of the same database as it wants, and a way to wait with a reason.
//!
//! Only [`raw`](Test::raw) goes round the contract, for what the contract cannot do: damage a row, or lock one.

use std::future::Future;
use std::ops::Deref;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bson::{Document, doc};
use chrono::{DateTime, TimeDelta, Utc};
use futures::FutureExt;
use relaybus_host::delivery::{DeliveryId, EventId};
use relaybus_host::lease::Lease;
use relaybus_host::store::{self, AttemptRecord, Backend, DeliveryDetails, DeliverySummary, OpenStore, StoreOptions};
use relaybus_tests::stores::{self, Database};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{PgPool, SqlitePool};
use tokio::runtime::Runtime;
use tokio::sync::OnceCell;
use tokio::time::Instant;

/// The longest wait for anything: far beyond what a busy machine needs, so that only what never comes fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The longest that a whole case may take.
const CASE_DEADLINE: Duration = Duration::from_secs(300);

/// A lease that outlives every case.
pub(crate) const LONG: Duration = Duration::from_secs(600);

/// A lease that is soon over, and yet long enough to set up a case under it.
pub(crate) const SHORT: Duration = Duration::from_millis(300);

/// One promise of the contract, put to the test.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) module: &'static str,
    /// The backends that it is about, where that is not all of them: a declared difference.
    pub(crate) only: &'static [Backend],
    pub(crate) run: fn(Test) -> Body,
}

pub(crate) type Body = Pin<Box<dyn Future<Output = ()> + Send>>;

inventory::collect!(Case);

/// Registers a case: `case!(c6_a_claim_counts_an_attempt, |t| async move { ... })`, or one about some backends: `case!([Backend::Postgres], ...)`.
macro_rules! case {
    ($name:ident, $body:expr) => {
        inventory::submit! { $crate::harness::Case { name: stringify!($name), module: module_path!(), only: &[], run: |t| $crate::harness::body($body, t) } }
    };
    ([$($backend:path),+], $name:ident, $body:expr) => {
        inventory::submit! { $crate::harness::Case { name: stringify!($name), module: module_path!(), only: &[$($backend),+], run: |t| $crate::harness::body($body, t) } }
    };
}
pub(crate) use case;

/// Gives the closure of a case its argument's type.
pub(crate) fn body<F: Future<Output = ()> + Send + 'static>(body: impl FnOnce(Test) -> F, t: Test) -> Body {
    Box::pin(body(t))
}

pub(crate) fn cases() -> impl Iterator<Item = &'static Case> {
    inventory::iter::<Case>.into_iter()
}

pub(crate) fn cases_for(backend: Backend) -> impl Iterator<Item = &'static Case> {
    cases().filter(move |case| case.only.is_empty() || case.only.contains(&backend))
}

impl Case {
    /// Such as `sqlite::claim::c6_a_claim_counts_an_attempt`.
    pub(crate) fn name_on(&self, backend: Backend) -> String {
        let module = self.module.split_once("::").map_or(self.module, |(_suite, module)| module);
        format!("{}::{module}::{}", stores::name_of(backend), self.name)
    }
}

pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    Runtime::new().expect("a runtime starts").block_on(future)
}

/// Runs one case on a database of its own, which is removed however the case ends.
pub(crate) fn run(case: &'static Case, backend: Backend) -> Result<(), String> {
    block_on(async {
        let database = Arc::new(Database::create(backend).await.map_err(|error| format!("{error:#}"))?);
        let checked = async {
            let test = Test::open(Arc::clone(&database)).await?;
            let case = tokio::time::timeout(CASE_DEADLINE, AssertUnwindSafe((case.run)(test)).catch_unwind());
            case.await.map_err(|_| format!("expected the case to end within {CASE_DEADLINE:?}"))?.map_err(|panic| text_of(panic.as_ref()))
        };
        let checked = checked.await;
        database.remove().await;
        checked
    })
}

fn text_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("the case panicked").to_owned()
}

/// Polls `attempt` until it answers something, for [`PATIENCE`] at most.
///
/// # Panics
/// After that, naming what was expected.
pub(crate) async fn until<T, F: Future<Output = Option<T>>>(expected: &str, mut attempt: impl FnMut() -> F) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = attempt().await {
            return answer;
        }
        assert!(Instant::now() < deadline, "expected within {PATIENCE:?}: {expected}");
        relaybus_tests::pause().await;
    }
}

/// One opening of the database, as one host process has it. The verbs are in `words`.
#[derive(Clone)]
pub(crate) struct Process {
    pub(crate) store: Arc<dyn store::Store>,
    pub(crate) operators: Arc<dyn store::Operators>,
}

/// Connections that go round the contract.
#[derive(Clone)]
pub(crate) enum Raw {
    Sqlite(SqlitePool),
    Postgres(PgPool),
    MongoDb(mongodb::Database),
}

/// A row, or a whole file, that somebody else has locked until they [`release`](Self::release) it.
#[must_use]
pub(crate) enum Lock {
    Sqlite(sqlx::Transaction<'static, sqlx::Sqlite>),
    Postgres(sqlx::Transaction<'static, sqlx::Postgres>),
    MongoDb(Box<mongodb::ClientSession>),
}

impl Lock {
    pub(crate) async fn release(self) {
        match self {
            Self::Sqlite(file) => file.rollback().await.expect("the lock is released"),
            Self::Postgres(row) => row.rollback().await.expect("the lock is released"),
            Self::MongoDb(mut document) => document.abort_transaction().await.expect("the lock is released"),
        }
    }
}

/// What a case gets. Its verbs act through one process; what it looks at ([`show`](Self::show)) is read by another.
pub(crate) struct Test {
    database: Arc<Database>,
    process: Process,
    witness: Process,
    raw: OnceCell<Raw>,
}

impl Deref for Test {
    type Target = Process;
    fn deref(&self) -> &Process {
        &self.process
    }
}

impl Test {
    async fn open(database: Arc<Database>) -> Result<Self, String> {
        let process = Process::open(&database.url, options()).await?;
        let witness = Process::open(&database.url, options()).await?;
        Ok(Self { database, process, witness, raw: OnceCell::new() })
    }

    pub(crate) fn backend(&self) -> Backend {
        self.database.backend
    }

    /// A second opening of the same database: another process, as far as the store can tell.
    pub(crate) async fn reopen(&self) -> Process {
        self.reopen_with(options()).await
    }

    pub(crate) async fn reopen_with(&self, options: StoreOptions) -> Process {
        Process::open(&self.database.url, options).await.expect("the database opens again")
    }

    /// The delivery as another process reads it.
    pub(crate) async fn show(&self, id: DeliveryId) -> DeliverySummary {
        self.details(id).await.summary
    }

    pub(crate) async fn details(&self, id: DeliveryId) -> DeliveryDetails {
        self.witness.operators.show(id).await.expect("the delivery is there")
    }

    pub(crate) async fn attempt_records(&self, id: DeliveryId) -> Vec<AttemptRecord> {
        self.details(id).await.attempt_records
    }

    /// Every delivery that meets the conditions, as another process reads it; latest first.
    pub(crate) async fn list(&self, conditions: store::List) -> Vec<DeliverySummary> {
        self.witness.operators.list(store::List { limit: 1000, ..conditions }).await.expect("deliveries are listed")
    }

    /// The present by the clock that decides what is due.
    pub(crate) async fn now(&self) -> DateTime<Utc> {
        match self.raw().await {
            Raw::Sqlite(_) => Utc::now(),
            Raw::Postgres(pool) => sqlx::query_scalar("select clock_timestamp()").fetch_one(&pool).await.expect("the server has a clock"),
            Raw::MongoDb(database) => {
                let hello = database.run_command(doc! { "hello": 1 }).await.expect("the server answers");
                hello.get_datetime("localTime").expect("the server has a clock").to_chrono()
            }
        }
    }

    /// Waits until the lease has run out by the store's clock, though nobody took it.
    pub(crate) async fn expired(&self, lease: Lease) {
        until("the lease runs out", || async {
            let ends_at = self.show(lease.delivery).await.lease_expires_at.expect("the delivery is under a lease");
            (self.now().await > ends_at).then_some(())
        })
        .await;
    }

    /// Waits until the store's clock shows a later time, so that what is settled lies in the past.
    pub(crate) async fn tick(&self) {
        let later = self.now().await + TimeDelta::milliseconds(2);
        until("the store's clock goes on", || async { (self.now().await > later).then_some(()) }).await;
    }

    pub(crate) async fn raw(&self) -> Raw {
        let open = || async {
            match self.backend() {
                Backend::Sqlite => {
                    let path = self.database.url.trim_start_matches("sqlite:");
                    let file = SqliteConnectOptions::new().filename(path).busy_timeout(PATIENCE);
                    Raw::Sqlite(SqlitePool::connect_with(file).await.expect("the file opens"))
                }
                Backend::Postgres => Raw::Postgres(PgPool::connect(&self.database.url).await.expect("the server answers")),
                Backend::MongoDb => {
                    let client = mongodb::Client::with_uri_str(&self.database.url).await.expect("the URL can be read");
                    Raw::MongoDb(client.default_database().expect("the URL names a database"))
                }
            }
        };
        self.raw.get_or_init(open).await.clone()
    }

    /// Damages the event's row, as a faulty disk or a careless hand does: its headers are JSON, but no headers.
    pub(crate) async fn corrupt_headers(&self, event: EventId) {
        let n_rows = match self.raw().await {
            Raw::Sqlite(pool) => {
                let damage = sqlx::query("update relaybus_events set headers = '\"damaged\"' where id = $1").bind(event.0);
                damage.execute(&pool).await.expect("the row is damaged").rows_affected()
            }
            Raw::Postgres(pool) => {
                let damage = sqlx::query("update relaybus.events set headers = '\"damaged\"' where id = $1").bind(event.0);
                damage.execute(&pool).await.expect("the row is damaged").rows_affected()
            }
            Raw::MongoDb(database) => {
                let (event, damage) = (doc! { "_id": bson::Uuid::from(event.0) }, doc! { "$set": { "headers": "damaged" } });
                database.collection::<Document>("events").update_one(event, damage).await.expect("the document is damaged").modified_count
            }
        };
        assert_eq!(n_rows, 1);
    }

    /// Locks the delivery's row, or the file where there are no row locks, as somebody else's transaction does.
    pub(crate) async fn lock(&self, delivery: DeliveryId) -> Lock {
        match self.raw().await {
            Raw::Sqlite(pool) => Lock::Sqlite(pool.begin_with("begin immediate").await.expect("the file is locked")),
            Raw::Postgres(pool) => {
                let mut row = pool.begin().await.expect("a transaction begins");
                let lock = sqlx::query("select 1 from relaybus.deliveries where id = $1 for update").bind(delivery.0);
                lock.fetch_one(&mut *row).await.expect("the row is locked");
                Lock::Postgres(row)
            }
            Raw::MongoDb(database) => {
                let mut session = database.client().start_session().await.expect("a session begins");
                session.start_transaction().await.expect("a transaction begins");
                let (delivery, touch) = (doc! { "_id": bson::Uuid::from(delivery.0) }, doc! { "$set": { "touched": true } });
                let deliveries = database.collection::<Document>("deliveries");
                let touched = deliveries.update_one(delivery, touch).session(&mut session).await.expect("the document is held");
                assert_eq!(touched.modified_count, 1);
                Lock::MongoDb(Box::new(session))
            }
        }
    }
}

impl Process {
    async fn open(url: &str, options: StoreOptions) -> Result<Self, String> {
        let OpenStore { store, operators } =
            store::open(url, options).await.map_err(|error| format!("{:#}", anyhow::Error::from(error)))?;
        Ok(Self { store, operators })
    }
}

/// Calls may take long here: eight cases share the machine, and no case wants to learn that it is slow.
fn options() -> StoreOptions {
    StoreOptions { call_timeout: PATIENCE, max_connections: 4 }
}

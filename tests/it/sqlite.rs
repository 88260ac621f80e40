//! What is SQLite's alone. The contract's clauses are the conformance suite's.
//!
//! The cases of a full and of a read-only disk mount a small file system, which needs root; `RELAYBUS_SKIP_MOUNTS=1` leaves them out.
#![allow(clippy::unwrap_used, reason = "all of this file is tests")]

use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use relaybus_host::delivery::{DeliveryId, EventId, HandlerId, NewEvent, Status, WorkerId};
use relaybus_host::lease::{Lease, LeaseToken, Renewal};
use relaybus_host::store::{
    Attempt, AttemptReport, Change, Changed, Claim, ClaimFor, Claimed, ErrorKind, ExtendLeases, Isolation, List, OpenStore, Outcome,
    RemoveHandler, Retention, Settle, Settled, Settlement, StoreError, StoreOptions, Subscribe, Unfinished, open,
};
use relaybus_host::verdict::Reason;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Executor, Row, SqliteConnection};
use tempfile::TempDir;

/// What the statement of this name is, whatever the store makes of it.
macro_rules! statement {
    ($name:literal) => {
        include_str!(concat!("../../host/src/store/sqlite/sql/", $name, ".sql"))
    };
}

const LEASE: Duration = Duration::from_secs(30);

struct File {
    _folder: TempDir,
    path: PathBuf,
}

impl File {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("relaybus.db");
        Self { _folder: folder, path }
    }

    async fn open(&self) -> OpenStore {
        open_at(&self.path).await.unwrap()
    }

    /// A connection past the store, to look, to damage and to be in the way.
    async fn raw(&self) -> SqliteConnection {
        SqliteConnectOptions::new().filename(&self.path).create_if_missing(true).foreign_keys(false).connect().await.unwrap()
    }
}

async fn open_at(path: &Path) -> Result<OpenStore, StoreError> {
    open(&format!("sqlite:{}", path.display()), StoreOptions::default()).await
}

fn subscribe(name: &str, topic: &str) -> Subscribe {
    Subscribe {
        tenant: "default".to_owned(),
        name: name.to_owned(),
        digest: "d1".to_owned(),
        topics: vec![topic.parse().unwrap()],
        max_attempts: 3,
        max_crashes: 5,
    }
}

fn event(topic: &str) -> NewEvent {
    NewEvent::new(topic.parse().unwrap(), b"{}".to_vec())
}

fn claim(handler: HandlerId, limit: u32, lease_duration: Duration) -> Claim {
    Claim {
        worker: WorkerId::random(),
        token: LeaseToken::random(),
        handlers: vec![ClaimFor { handler, limit, lease_duration }],
        limit,
        max_payload_bytes: u64::MAX,
        isolation: Isolation::Shared,
        exclude: Vec::new(),
    }
}

fn settle(delivery: DeliveryId, token: LeaseToken, settle: Settle) -> Settlement {
    Settlement { lease: Lease { delivery, token }, settle, report: None }
}

fn report(message: &str) -> AttemptReport {
    AttemptReport {
        worker: WorkerId::random(),
        ran_for: Duration::from_millis(5),
        reason: Reason::Failed,
        message: message.to_owned(),
        output: "o".repeat(200_000),
    }
}

fn ids(claimed: &Claimed) -> Vec<DeliveryId> {
    claimed.deliveries.iter().map(|delivery| delivery.id).collect()
}

#[tokio::test]
async fn a_delivery_goes_its_whole_way() {
    let file = File::new();
    let OpenStore { store, operators } = file.open().await;
    let handler = store.subscribe(subscribe("mailer", "order.*")).await.unwrap();
    assert_eq!(handler.previous_digest, None);
    let again = store.subscribe(Subscribe { digest: "d2".to_owned(), ..subscribe("mailer", "order.*") }).await.unwrap();
    assert_eq!((again.handler, again.previous_digest.as_deref()), (handler.handler, Some("d1")));
    let handler = handler.handler;

    let mut first = event("order.created");
    first.dedup_id = Some("x".to_owned());
    let mut second = event("order.created");
    second.dedup_id = Some("x".to_owned());
    let mut bad = event("order.created");
    bad.key = Some("a\0b".to_owned());
    let unheard = event("other");
    let answers = store.publish(vec![first.clone(), second, bad, unheard, first.clone()]).await.unwrap();
    let answers: Vec<_> =
        answers.into_iter().map(|answer| answer.ok().map(|p| (p.event == first.id, p.n_deliveries, p.is_duplicate))).collect();
    assert_eq!(answers, [Some((true, 1, false)), Some((true, 1, true)), None, Some((false, 0, false)), Some((true, 1, false))]);

    let request = claim(handler, 10, LEASE);
    let claimed = store.claim(request.clone()).await.unwrap();
    assert_eq!(claimed.deliveries.len(), 1, "{claimed:?}");
    assert_eq!(claimed.deliveries[0].payload, first.payload);
    assert_eq!(claimed.deliveries[0].attempt, 1);
    assert_eq!(ids(&store.recover_claim(request.token).await.unwrap()), ids(&claimed));
    let id = claimed.deliveries[0].id;
    let backlog = store.backlog(&[handler]).await.unwrap();
    assert_eq!((backlog.n_pending, backlog.n_processing), (0, 1));

    let leases = [Lease { delivery: id, token: request.token }, Lease { delivery: id, token: LeaseToken::random() }];
    assert_eq!(
        store.extend_leases(ExtendLeases { leases: leases[..1].to_vec(), lease_duration: LEASE }).await.unwrap(),
        [Renewal::Renewed]
    );
    assert_eq!(store.extend_leases(ExtendLeases { leases: leases[1..].to_vec(), lease_duration: LEASE }).await.unwrap(), [Renewal::Lost]);

    let reschedule = Settle::Reschedule { delay: Duration::ZERO, attempt: Attempt::Counts };
    let with_report = Settlement { report: Some(report("no\0pe")), ..settle(id, request.token, reschedule) };
    let answers = store.settle(vec![with_report.clone(), with_report, settle(id, request.token, Settle::Bury)]).await.unwrap();
    assert_eq!(answers.into_iter().map(Result::unwrap).collect::<Vec<_>>(), [Settled::Applied, Settled::Applied, Settled::LeaseLost]);

    let request = claim(handler, 10, LEASE);
    let claimed = store.claim(request.clone()).await.unwrap();
    assert_eq!(claimed.deliveries[0].attempt, 2);
    let mut bad = event("order.paid");
    bad.tenant = "no such name!".to_owned();
    let refused = settle(id, request.token, Settle::Complete { events: vec![event("order.paid"), bad] });
    let answers = store.settle(vec![refused]).await.unwrap();
    assert!(answers[0].is_err());
    assert_eq!(store.backlog(&[handler]).await.unwrap().n_pending, 0);
    let done = settle(id, request.token, Settle::Complete { events: vec![event("order.paid")] });
    assert_eq!(*store.settle(vec![done]).await.unwrap()[0].as_ref().unwrap(), Settled::Applied);
    assert_eq!(store.backlog(&[handler]).await.unwrap().n_pending, 1);

    let listed = operators.list(List { limit: 10, handler: Some("mailer".to_owned()), ..List::default() }).await.unwrap();
    assert_eq!(listed.len(), 2);
    assert_eq!(operators.list(List { limit: 10, status: Some(Status::Completed), ..List::default() }).await.unwrap().len(), 1);
    let shown = operators.show(id).await.unwrap();
    assert_eq!((shown.attempt_records.len(), shown.attempt_records[0].message.as_str()), (1, "no\u{fffd}pe"));
    assert_eq!(shown.summary.reason.as_deref(), Some("failed"));
    let other = listed.iter().find(|listed| listed.id != id).unwrap().id;
    assert_eq!(operators.change(&[other, id], Change::Bury).await.unwrap(), [Changed::Applied, Changed::NotAllowed(Status::Completed)]);
    assert_eq!(operators.change(&[other], Change::Redrive).await.unwrap(), [Changed::Applied]);
    let remove = |unfinished| RemoveHandler { tenant: "default".to_owned(), name: "mailer".to_owned(), unfinished };
    assert_eq!(operators.remove_handler(remove(Unfinished::Refuse)).await.unwrap_err().kind, ErrorKind::Conflict);
    let handlers = operators.list_handlers().await.unwrap();
    assert_eq!((handlers[0].pending, handlers[0].completed, handlers[0].topics.clone()), (1, 1, vec!["order.*".to_owned()]));
    operators.remove_handler(remove(Unfinished::Bury)).await.unwrap();
    assert_eq!(operators.remove_handler(remove(Unfinished::Bury)).await.unwrap_err().kind, ErrorKind::NotFound);
    let pruned = operators.prune(Retention { completed: Duration::ZERO, buried: Duration::ZERO }).await.unwrap();
    assert_eq!((pruned.n_deliveries, pruned.n_events), (2, 3));
    store.close().await;
    assert_eq!(store.publish(vec![event("x")]).await.unwrap_err().kind, ErrorKind::Unavailable);
    assert_eq!(operators.list_handlers().await.unwrap_err().kind, ErrorKind::Unavailable);
}

async fn refusal(path: &Path) -> StoreError {
    open_at(path).await.err().expect("expected the store to be refused")
}

#[tokio::test]
async fn a_file_that_is_no_database_is_named() {
    let file = File::new();
    std::fs::write(
        &file.path,
        "this is a shopping list, long enough to have a header of its own: milk, eggs, flour, butter, sugar, salt, and so on and on",
    )
    .unwrap();
    let error = refusal(&file.path).await;
    assert_eq!(error.kind, ErrorKind::Misconfigured);
    assert!(error.message.contains("relaybus.db` is not a SQLite database"), "{error}");
    assert!(std::fs::read_to_string(&file.path).unwrap().starts_with("this is a shopping list"));
}

#[tokio::test]
async fn a_path_that_cannot_be_is_named() {
    let file = File::new();
    let missing = file.path.join("deeper").join("relaybus.db");
    let error = refusal(&missing).await;
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(error.message.contains("there is no folder"), "{error}");
    let error = refusal(file.path.parent().unwrap()).await;
    assert_eq!(error.kind, ErrorKind::Misconfigured);
    assert!(error.message.contains("expected a file, got the folder"), "{error}");
    for nothing in ["", ":memory:"] {
        assert_eq!(refusal(Path::new(nothing)).await.kind, ErrorKind::Misconfigured);
    }
}

#[tokio::test]
async fn a_newer_schema_is_refused_and_left_alone() {
    let file = File::new();
    file.open().await.store.close().await;
    file.raw().await.execute("insert into relaybus_migrations values (7, 0)").await.unwrap();
    let error = refusal(&file.path).await;
    assert_eq!(error.kind, ErrorKind::Misconfigured);
    assert!(error.message.contains("schema version 7, this program knows up to 1: update the program"), "{error}");
}

#[tokio::test]
async fn tables_of_the_application_stay_as_they_are() {
    let file = File::new();
    file.raw()
        .await
        .execute("pragma user_version = 41; create table handlers (name text); insert into handlers values ('mine')")
        .await
        .unwrap();
    file.open().await.store.close().await;
    let mut raw = file.raw().await;
    assert_eq!(raw.fetch_one("pragma user_version").await.unwrap().get::<i64, _>(0), 41);
    assert_eq!(raw.fetch_one("select name from handlers").await.unwrap().get::<String, _>(0), "mine");
}

/// A small file system of its own, unmounted at the end.
struct Disk {
    folder: TempDir,
}

impl Disk {
    fn mount(options: &str) -> Option<Self> {
        if std::env::var_os("RELAYBUS_SKIP_MOUNTS").is_some() {
            println!("skipped: RELAYBUS_SKIP_MOUNTS is set");
            return None;
        }
        let disk = Self { folder: tempfile::tempdir().unwrap() };
        disk.call(Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]));
        Some(disk)
    }

    fn call(&self, command: &mut Command) {
        assert!(
            command.arg(self.folder.path()).status().unwrap().success(),
            "expected {command:?} to work; RELAYBUS_SKIP_MOUNTS=1 leaves it out"
        );
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("relaybus.db")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.call(&mut Command::new("umount"));
    }
}

#[tokio::test]
async fn a_read_only_disk_is_named() {
    let Some(disk) = Disk::mount("size=8m") else { return };
    open_at(&disk.path()).await.unwrap().store.close().await;
    disk.call(Command::new("mount").args(["-o", "remount,ro"]));
    for path in [disk.path(), disk.folder.path().join("fresh.db")] {
        let error = refusal(&path).await;
        assert_eq!(error.kind, ErrorKind::Unavailable);
        assert!(error.message.contains(path.to_str().unwrap()), "{error}");
    }
}

#[tokio::test]
async fn a_full_disk_refuses_and_works_again_when_there_is_room() {
    let Some(disk) = Disk::mount("size=4m") else { return };
    let store = open_at(&disk.path()).await.unwrap().store;
    let handler = store.subscribe(subscribe("mailer", "a")).await.unwrap().handler;
    let ballast = disk.folder.path().join("ballast");
    std::fs::write(&ballast, vec![0; 2 << 20]).unwrap();
    let mut accepted = Vec::new();
    let error = loop {
        let mut event = event("a");
        event.payload = vec![7; 200_000].into();
        let id = event.id;
        match store.publish(vec![event]).await {
            Ok(answers) => answers.into_iter().for_each(|answer| {
                answer.unwrap();
                accepted.push(id);
            }),
            Err(error) => break error,
        }
        assert!(accepted.len() < 100, "expected a disk of 4 MiB to be full by now");
    };
    assert_eq!((error.kind, error.outcome), (ErrorKind::Unavailable, Outcome::NotApplied));
    assert!(error.message.contains("is full"), "{error}");
    std::fs::remove_file(&ballast).unwrap();
    let last = event("a");
    accepted.push(last.id);
    store.publish(vec![last]).await.unwrap().remove(0).unwrap();
    let claimed = store.claim(claim(handler, 100, LEASE)).await.unwrap();
    let claimed: Vec<_> = claimed.deliveries.into_iter().map(|delivery| delivery.event_id).collect();
    assert_eq!(claimed, accepted);
    store.close().await;
}

/// Starts this test program again, to run the ignored test `role` on the file at `path`.
fn spawn(role: &str, path: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap()).args(["--exact", role, "--ignored"]).env("RELAYBUS_TEST_FILE", path).spawn().unwrap()
}

async fn open_in_child() -> OpenStore {
    open_at(Path::new(&std::env::var_os("RELAYBUS_TEST_FILE").unwrap())).await.unwrap()
}

#[tokio::test]
#[ignore = "a process of its own, started by another test"]
async fn publishes_fifty_events() {
    let store = open_in_child().await.store;
    store.subscribe(subscribe("mailer", "a")).await.unwrap();
    for _ in 0..50 {
        store.publish(vec![event("a")]).await.unwrap().remove(0).unwrap();
    }
    store.close().await;
}

#[tokio::test]
#[ignore = "a process of its own, started and killed by another test"]
async fn publishes_until_it_is_killed() {
    let store = open_in_child().await.store;
    loop {
        let published = store.publish(vec![event("a")]).await.unwrap().remove(0).unwrap();
        println!("accepted {}", published.event);
    }
}

#[tokio::test]
async fn r22_what_was_accepted_is_there_after_the_publisher_was_killed() {
    let file = File::new();
    let store = file.open().await.store;
    let handler = store.subscribe(subscribe("mailer", "a")).await.unwrap().handler;
    store.close().await;
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "publishes_until_it_is_killed", "--ignored", "--nocapture"]).env("RELAYBUS_TEST_FILE", &file.path);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut accepted = Vec::new();
    for line in lines {
        let Some((_, id)) = line.split_once("accepted ") else { continue };
        accepted.push(id.parse::<EventId>().unwrap());
        if accepted.len() == 50 {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    let claimed = file.open().await.store.claim(claim(handler, 10_000, LEASE)).await.unwrap();
    let stored: HashSet<_> = claimed.deliveries.iter().map(|delivery| delivery.event_id).collect();
    assert!(accepted.len() >= 50 && accepted.iter().all(|id| stored.contains(id)));
}

#[tokio::test]
async fn processes_that_open_a_fresh_file_at_once_share_it() {
    let file = File::new();
    let children: Vec<_> = (0..4).map(|_| spawn("publishes_fifty_events", &file.path)).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let store = file.open().await.store;
    let handler = store.subscribe(subscribe("mailer", "a")).await.unwrap().handler;
    assert_eq!(store.claim(claim(handler, 500, LEASE)).await.unwrap().deliveries.len(), 200);
}

#[tokio::test]
async fn a_publish_of_another_process_wakes_a_waiting_worker() {
    let file = File::new();
    let store = file.open().await.store;
    let handler = store.subscribe(subscribe("mailer", "a")).await.unwrap().handler;
    assert!(store.claim(claim(handler, 500, LEASE)).await.unwrap().deliveries.is_empty());
    let mut child = spawn("publishes_fifty_events", &file.path);
    let started = Instant::now();
    while store.claim(claim(handler, 500, LEASE)).await.unwrap().deliveries.is_empty() {
        store.wait_for_work(Duration::from_secs(60)).await;
    }
    assert!(started.elapsed() < Duration::from_secs(30));
    assert!(child.wait().unwrap().success());
}

#[tokio::test]
async fn a_late_worker_of_the_same_store_is_woken_though_another_has_looked() {
    let file = File::new();
    let store = file.open().await.store;
    let early = store.subscribe(subscribe("early", "a")).await.unwrap().handler;
    let late = store.subscribe(subscribe("late", "a")).await.unwrap().handler;
    assert!(store.claim(claim(late, 1, LEASE)).await.unwrap().deliveries.is_empty());
    store.publish(vec![event("a")]).await.unwrap();
    assert_eq!(store.claim(claim(early, 1, LEASE)).await.unwrap().deliveries.len(), 1);
    let started = Instant::now();
    store.wait_for_work(Duration::from_secs(60)).await;
    assert!(started.elapsed() < Duration::from_secs(10));
    assert_eq!(store.claim(claim(late, 1, LEASE)).await.unwrap().deliveries.len(), 1);
}

#[tokio::test]
async fn a_held_write_lock_times_out_writes_while_reads_go_on() {
    let file = File::new();
    let options = StoreOptions { call_timeout: Duration::from_millis(500), ..StoreOptions::default() };
    let OpenStore { store, operators } = open(&format!("sqlite:{}", file.path.display()), options).await.unwrap();
    let mut raw = file.raw().await;
    raw.execute("begin immediate").await.unwrap();
    let abandoned = event("a");
    let mut call = store.publish(vec![abandoned.clone()]);
    assert!(futures::poll!(call.as_mut()).is_pending());
    drop(call);
    let started = Instant::now();
    let error = store.publish(vec![event("a")]).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Timeout, "{error}");
    assert!(started.elapsed() < Duration::from_secs(5));
    assert!(operators.list(List { limit: 10, ..List::default() }).await.unwrap().is_empty());
    raw.execute("commit").await.unwrap();
    store.publish(vec![abandoned]).await.unwrap().remove(0).unwrap();
}

#[tokio::test]
async fn dead_rows_in_front_do_not_hide_what_is_due_behind_them() {
    let file = File::new();
    let store = file.open().await.store;
    let handler = store.subscribe(subscribe("mailer", "a")).await.unwrap().handler;
    store.publish((0..100).map(|_| event("a")).collect()).await.unwrap();
    file.raw().await.execute("update relaybus_deliveries set attempts = 3").await.unwrap();
    store.publish((0..5).map(|_| event("a")).collect()).await.unwrap();
    let claimed = store.claim(claim(handler, 20, LEASE)).await.unwrap();
    assert_eq!((claimed.buried.len(), claimed.deliveries.len()), (100, 5));
    assert!(claimed.buried.iter().all(|buried| buried.reason == Reason::MaxAttempts));
}

#[tokio::test]
async fn a_delivery_that_has_lost_its_event_is_listed_and_named() {
    let file = File::new();
    let OpenStore { store, operators } = file.open().await;
    let handler = store.subscribe(subscribe("mailer", "a")).await.unwrap().handler;
    store.publish(vec![event("a"), event("a")]).await.unwrap();
    file.raw().await.execute("delete from relaybus_events where rowid = 1").await.unwrap();
    let listed = operators.list(List { limit: 10, ..List::default() }).await.unwrap();
    assert_eq!(listed.len(), 2);
    let claimed = store.claim(claim(handler, 10, LEASE)).await.unwrap();
    assert_eq!((claimed.deliveries.len(), claimed.malformed.len()), (1, 1));
    assert!(claimed.malformed[0].problem.starts_with("event: "), "{claimed:?}");
    assert_eq!(operators.show(claimed.malformed[0].id).await.unwrap_err().kind, ErrorKind::Corrupt);
}

#[tokio::test]
async fn an_unreadable_subscription_does_not_stop_the_events_of_others() {
    let file = File::new();
    let store = file.open().await.store;
    store.subscribe(subscribe("broken", "b")).await.unwrap();
    store.subscribe(subscribe("sound", "a")).await.unwrap();
    file.raw().await.execute("update relaybus_subscriptions set pattern = 'no topic!' where pattern = 'b'").await.unwrap();
    assert_eq!(store.publish(vec![event("a")]).await.unwrap().remove(0).unwrap().n_deliveries, 1);
}

#[tokio::test]
async fn a_store_that_is_dropped_without_a_close_lets_go_of_its_file() {
    let file = File::new();
    drop(file.open().await);
    let log = file.path.with_extension("db-wal");
    let deadline = Instant::now() + Duration::from_secs(30);
    while log.exists() {
        assert!(Instant::now() < deadline, "expected the last connection to close and remove the log");
        tokio::task::yield_now().await;
    }
}

/// The plan of a statement of the store, one step a line.
async fn plan(raw: &mut SqliteConnection, statement: &str) -> String {
    let statement = sqlx::AssertSqlSafe(format!("explain query plan {statement}"));
    let rows = sqlx::query(statement).fetch_all(raw).await.unwrap();
    rows.iter().map(|row| row.get::<String, _>("detail")).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn a_list_reads_no_more_rows_than_it_shows() {
    let file = File::new();
    file.open().await.store.close().await;
    let list = statement!("list");
    for (condition, index) in
        [("", "SCAN delivery"), ("and delivery.status = 'buried'", "SCAN delivery USING INDEX relaybus_deliveries_buried")]
    {
        let plan = plan(&mut file.raw().await, &format!("{list} {condition} order by delivery.id desc limit 100")).await;
        assert!(plan.starts_with(index) && !plan.contains("TEMP B-TREE"), "{plan}");
    }
}

/// With 100,000 pending rows of one handler and as many settled ones, and with the planner's statistics of them.
#[tokio::test]
async fn no_hot_statement_scans_a_table_however_many_rows_it_has() {
    let file = File::new();
    let store = file.open().await.store;
    store.subscribe(subscribe("mailer", "a")).await.unwrap();
    for n in 0..100 {
        store.subscribe(subscribe(&format!("idle-{n}"), "b")).await.unwrap();
    }
    for _ in 0..200 {
        store.publish((0..1000).map(|_| event("a")).collect()).await.unwrap();
    }
    store.close().await;
    let mut raw = file.raw().await;
    let settle = "update relaybus_deliveries set status = 'completed', due_at = null, settled_at = 1 where unicode(substr(hex(id), 32)) % 2 = 0; analyze";
    raw.execute(settle).await.unwrap();
    for (name, statement) in [
        ("claim_look", statement!("claim_look")),
        ("claim_candidates", statement!("claim_candidates")),
        ("claim_isolated", statement!("claim_isolated")),
        ("claim_lease", statement!("claim_lease")),
        ("claim_isolate", statement!("claim_isolate")),
        ("claim_bury", statement!("claim_bury")),
        ("claim_read", statement!("claim_read")),
        ("claim_recover", statement!("claim_recover")),
        ("extend_leases", statement!("extend_leases")),
        ("settle_look", statement!("settle_look")),
        ("settle_complete", statement!("settle_complete")),
        ("settle_reschedule", statement!("settle_reschedule")),
        ("settle_bury", statement!("settle_bury")),
        ("settle_release", statement!("settle_release")),
        ("attempt_records_insert", statement!("attempt_records_insert")),
        ("attempt_records_trim", statement!("attempt_records_trim")),
        ("publish_known", statement!("publish_known")),
        ("change_look", statement!("change_look")),
        ("change_redrive", statement!("change_redrive")),
        ("change_release", statement!("change_release")),
        ("change_bury", statement!("change_bury")),
        ("prune_deliveries", statement!("prune_deliveries")),
        ("prune_attempt_records", statement!("prune_attempt_records")),
        ("prune_events", statement!("prune_events")),
        ("prune_events_without_deliveries", statement!("prune_events_without_deliveries")),
        ("handlers_find", statement!("handlers_find")),
        ("handlers_bury_unfinished", statement!("handlers_bury_unfinished")),
        ("backlog", statement!("backlog")),
    ] {
        let plan = plan(&mut raw, statement).await;
        // Arrays that are bound to a statement are read as a whole, and so is the index of what is in flight.
        let is_narrow =
            |step: &str| ["VIRTUAL TABLE", "CONSTANT ROW", "relaybus_deliveries_leased"].iter().any(|narrow| step.contains(narrow));
        let scans: Vec<_> = plan.lines().filter(|step| step.starts_with("SCAN") && !is_narrow(step)).collect();
        assert!(scans.is_empty(), "{name} scans: {scans:?}\n{plan}");
    }
}

/// Publishes, claims and completes in batches, while a reader looks on; prints the rate, which is for people to compare.
#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_thousand_deliveries_leave_a_small_log() {
    const N: usize = 100_000;
    const BATCH: usize = 500;
    let file = File::new();
    let OpenStore { store, operators } = file.open().await;
    let handler = store.subscribe(subscribe("mailer", "a")).await.unwrap().handler;

    let started = Instant::now();
    for _ in 0..N / BATCH {
        store.publish((0..BATCH).map(|_| event("a")).collect()).await.unwrap();
    }
    let published = started.elapsed();

    let started = Instant::now();
    let mut n_done = 0;
    let mut largest_log = 0;
    while n_done < N {
        let request = claim(handler, 500, LEASE);
        let claimed = store.claim(request.clone()).await.unwrap();
        let settlements = ids(&claimed).into_iter().map(|id| settle(id, request.token, Settle::Complete { events: Vec::new() })).collect();
        n_done +=
            store.settle(settlements).await.unwrap().into_iter().map(Result::unwrap).filter(|settled| *settled == Settled::Applied).count();
        if n_done % 10_000 == 0 {
            operators.list(List { limit: 100, ..List::default() }).await.unwrap();
        }
        largest_log = largest_log.max(std::fs::metadata(file.path.with_extension("db-wal")).unwrap().len());
    }
    let burnt_down = started.elapsed();
    let rate = |elapsed: Duration| N as f64 / elapsed.as_secs_f64();
    println!(
        "{N} deliveries: published {:.0}/s, claimed and completed {:.0}/s, largest log {largest_log} bytes",
        rate(published),
        rate(burnt_down)
    );
    assert!(largest_log < 64 << 20, "expected the log to start anew, got {largest_log} bytes");
    store.close().await;
    assert!(!file.path.with_extension("db-wal").exists());
}

//! What is SQLite's alone. The contract's clauses are the conformance suite's.

use std::path::{Path, PathBuf};
use std::time::Duration;

use relaybus_host::delivery::{DeliveryId, HandlerId, NewEvent, Status, WorkerId};
use relaybus_host::lease::{Lease, LeaseToken, Renewal};
use relaybus_host::store::{
    Attempt, AttemptReport, Change, Changed, Claim, ClaimFor, Claimed, ErrorKind, ExtendLeases, Isolation, List, OpenStore, RemoveHandler,
    Retention, Settle, Settled, Settlement, StoreError, StoreOptions, Subscribe, Unfinished, open,
};
use relaybus_host::verdict::Reason;

use tempfile::TempDir;

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

    let leases = vec![Lease { delivery: id, token: request.token }, Lease { delivery: id, token: LeaseToken::random() }];
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

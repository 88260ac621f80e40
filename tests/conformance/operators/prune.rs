//! What people are promised when they clean up.

use std::time::Duration;

use relaybus_host::delivery::{NewEvent, Status};
use relaybus_host::lease::Lease;
use relaybus_host::store::{Backlog, List, Pruned, Retention, Settled};

use super::one_of_each;
use crate::harness::{LONG, Test, case, until};
use crate::words::{claim, complete, event, handler, ids};

/// Keeps nothing that is settled.
const NOTHING: Retention = Retention { completed: Duration::ZERO, buried: Duration::ZERO };

/// Prunes once everything that happened so far lies in the past.
async fn prune(t: &Test, retention: Retention) -> Pruned {
    t.tick().await;
    t.operators.prune(retention).await.expect("what is old enough is pruned")
}

case!(o7_only_what_is_settled_is_pruned, |t| async move {
    let each = one_of_each(&t).await;

    let pruned = prune(&t, NOTHING).await;

    assert_eq!((pruned.n_deliveries, pruned.n_events), (2, 2));
    let mut left: Vec<_> = t.list(List::default()).await.iter().map(|delivery| delivery.status).collect();
    left.sort_by_key(|status| status.as_str());
    assert_eq!(left, [Status::Pending, Status::Processing]);
    assert_eq!(t.settle(complete(each[1].1.lease)).await, Settled::Applied);
});

case!(o7_what_was_settled_lately_is_kept, |t| async move {
    one_of_each(&t).await;

    let pruned = prune(&t, Retention { completed: LONG, buried: LONG }).await;

    assert_eq!((pruned.n_deliveries, pruned.n_events, t.list(List::default()).await.len()), (0, 0, 4));
});

case!(o7_completed_and_buried_have_a_retention_each, |t| async move {
    one_of_each(&t).await;

    prune(&t, Retention { completed: Duration::ZERO, buried: LONG }).await;
    let n_left = t.list(List::default()).await.len();
    prune(&t, Retention { completed: LONG, buried: Duration::ZERO }).await;

    assert_eq!((n_left, t.list(List::default()).await.len()), (3, 2));
});

case!(o7_it_is_the_time_of_settling_that_counts, |t| async move {
    let (_, held) = t.hold_one("mailer").await;
    let retention = Duration::from_secs(2);
    until("the event is older than the retention", || async {
        let age = t.now().await - held.delivery.published_at;
        (age.to_std().ok()? > retention).then_some(())
    })
    .await;
    t.settle(complete(held.lease)).await;

    assert_eq!(prune(&t, Retention { completed: retention, buried: LONG }).await.n_deliveries, 0);
});

case!(o8_an_event_goes_with_its_last_delivery_and_its_dedup_id_with_it, |t| async move {
    let mailer = t.subscribe(handler("mailer", &["order.*"])).await;
    let auditor = t.subscribe(handler("auditor", &["order.*"])).await;
    let sent = || NewEvent { dedup_id: Some("order-1".to_owned()), ..event("order.created") };
    t.publish(sent()).await;
    let (first, second) = (t.hold(claim(mailer)).await, t.hold(claim(auditor)).await);

    t.settle(complete(first.lease)).await;
    let one_left = prune(&t, NOTHING).await;
    let while_there = t.publish(sent()).await;
    t.settle(complete(second.lease)).await;
    let none_left = prune(&t, NOTHING).await;
    let once_gone = t.publish(sent()).await;

    assert_eq!([(one_left.n_deliveries, one_left.n_events), (none_left.n_deliveries, none_left.n_events)], [(1, 0), (1, 1)]);
    assert_eq!((while_there.is_duplicate, once_gone.is_duplicate), (true, false));
});

case!(o8_an_event_without_deliveries_goes_by_its_age, |t| async move {
    t.publish(event("nobody.cares")).await;

    let young = prune(&t, Retention { completed: LONG, buried: Duration::ZERO }).await;
    let old = prune(&t, Retention { completed: Duration::ZERO, buried: LONG }).await;

    assert_eq!((young.n_events, old.n_events, old.n_deliveries), (0, 1, 0));
});

case!(o7_more_than_a_batch_is_pruned_by_one_call, |t| async move {
    let mailer = t.subscribe(handler("mailer", &["order.*"])).await;
    for _ in 0..3 {
        t.publish_many("order.created", 1000).await;
    }
    // A claim may hand out less than is due.
    until("every delivery is completed", || async {
        let all = claim(mailer);
        let token = all.token;
        let held = ids(&t.claim(all).await);
        t.settle_all(held.into_iter().map(|delivery| complete(Lease { delivery, token })).collect()).await;
        (t.store.backlog(&[mailer]).await.expect("the backlog is known") == Backlog::default()).then_some(())
    })
    .await;

    let pruned = prune(&t, NOTHING).await;

    assert_eq!((pruned.n_deliveries, pruned.n_events, t.list(List::default()).await.len()), (3000, 3000, 0));
});

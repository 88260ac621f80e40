//! What people are promised when they repair: redrive, bury, release.

use relaybus_host::delivery::{DeliveryId, Status};
use relaybus_host::lease::Renewal;
use relaybus_host::store::{Change, Changed, Settled, Subscribe};

use super::one_of_each;
use crate::harness::{LONG, case};
use crate::words::{Verb, bury, claim, event, handler};

case!(o3_a_redrive_starts_over, |t| async move {
    let mailer = t.subscribe(handler("mailer", &["order.*"])).await;
    t.publish(event("order.created")).await;
    t.crash(claim(mailer)).await;
    let held = t.hold(claim(mailer)).await;
    t.settle(bury(held.lease)).await;

    assert_eq!(t.change(held.delivery.id, Change::Redrive).await, Changed::Applied);

    let shown = t.show(held.delivery.id).await;
    assert_eq!((shown.status, shown.attempts, shown.crashes, shown.settled_at), (Status::Pending, 0, 0, None));
    let again = t.hold(claim(mailer)).await.delivery;
    assert_eq!((again.id, again.attempt, again.crashes, again.snoozes), (held.delivery.id, 1, 0, 0));
});

case!(o3_r8_what_was_buried_for_its_crashes_is_handed_out_like_any_other_once_redriven, |t| async move {
    let mailer = t.subscribe(Subscribe { max_crashes: 2, ..handler("mailer", &["order.*"]) }).await;
    t.publish(event("order.created")).await;
    t.crash(claim(mailer)).await;
    let held = t.crash(claim(mailer)).await;
    assert_eq!(t.claim(claim(mailer)).await.buried.len(), 1);

    assert_eq!(t.change(held.delivery.id, Change::Redrive).await, Changed::Applied);

    let again = t.hold(claim(mailer)).await.delivery;
    assert_eq!((again.attempt, again.crashes), (1, 0));
});

case!(o3_only_a_buried_delivery_is_redriven, |t| async move {
    for (status, held) in one_of_each(&t).await {
        let expected = if status == Status::Buried { Changed::Applied } else { Changed::NotAllowed(status) };
        assert_eq!(t.change(held.delivery.id, Change::Redrive).await, expected, "{status}");
        let shown = t.show(held.delivery.id).await.status;
        assert_eq!(shown, if status == Status::Buried { Status::Pending } else { status });
    }
});

case!(o3_the_answers_are_in_the_order_of_the_request, |t| async move {
    let each = one_of_each(&t).await;
    let unknown = DeliveryId(uuid::Uuid::new_v4());
    let ids = [each[3].1.delivery.id, unknown, each[0].1.delivery.id, each[2].1.delivery.id];

    let changed = t.operators.change(&ids, Change::Redrive).await.expect("the change is answered");

    let expected = [Changed::Applied, Changed::NotFound, Changed::NotAllowed(Status::Pending), Changed::NotAllowed(Status::Completed)];
    assert_eq!(changed, expected);
});

case!(o4_an_operator_buries_what_is_not_settled, |t| async move {
    for (status, held) in one_of_each(&t).await {
        let unfinished = matches!(status, Status::Pending | Status::Processing);
        let expected = if unfinished { Changed::Applied } else { Changed::NotAllowed(status) };

        assert_eq!(t.change(held.delivery.id, Change::Bury).await, expected, "{status}");

        let shown = t.show(held.delivery.id).await;
        if unfinished {
            assert_eq!((shown.status, shown.reason.as_deref(), shown.due_at), (Status::Buried, Some("operator"), None));
            assert!(shown.settled_at.is_some() && shown.lease_expires_at.is_none());
        } else {
            assert_eq!(shown.status, status);
        }
    }
});

case!(o5_r15_an_operator_releases_what_is_not_settled, |t| async move {
    for (status, held) in one_of_each(&t).await {
        let (expected, attempts) = match status {
            Status::Pending => (Changed::Applied, 1),
            Status::Processing => (Changed::Applied, 0),
            Status::Completed | Status::Buried => (Changed::NotAllowed(status), 1),
        };

        assert_eq!(t.change(held.delivery.id, Change::Release).await, expected, "{status}");

        assert_eq!(t.show(held.delivery.id).await.attempts, attempts, "{status}");
        let claimed = t.claim(claim(held.delivery.handler)).await.deliveries.len();
        assert_eq!(claimed, usize::from(expected == Changed::Applied), "{status}");
    }
});

case!(o6_r11_a_run_whose_delivery_an_operator_took_has_lost_its_lease, |t| async move {
    for (change, name) in [(Change::Bury, "buried"), (Change::Release, "released")] {
        for verb in Verb::ALL {
            let topic = format!("{name}.{}", verb.name());
            let (_, held) = t.hold_one_of(&topic.replace('.', "-"), &topic).await;
            t.change(held.delivery.id, change).await;
            let before = t.show(held.delivery.id).await;

            assert_eq!(t.extend(held.lease, LONG).await, Renewal::Lost);
            assert_eq!(t.settle(verb.of(held.lease)).await, Settled::LeaseLost, "{verb:?} of what was {name}");

            let after = t.show(held.delivery.id).await;
            assert_eq!((after.status, after.due_at, after.reason), (before.status, before.due_at, before.reason));
        }
    }
});

case!(o6_r12_after_an_operators_change_a_repeated_settle_has_lost_the_lease, |t| async move {
    for (verb, change) in [(Verb::Reschedule, Change::Release), (Verb::Release, Change::Bury), (Verb::Bury, Change::Redrive)] {
        let (_, held) = t.hold_one_of(verb.name(), verb.name()).await;
        t.settle(verb.of(held.lease)).await;
        assert_eq!(t.change(held.delivery.id, change).await, Changed::Applied);

        assert_eq!(t.settle(verb.of(held.lease)).await, Settled::LeaseLost, "{verb:?} again after {change:?}");
    }
});

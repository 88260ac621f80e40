//! What people are promised: to look, to repair and to clean up without harm to what runs.

use std::time::Duration;

use relaybus_host::delivery::{DeliveryId, NewEvent, Status};
use relaybus_host::lease::Renewal;
use relaybus_host::store::{Backlog, Change, Changed, ErrorKind, List, Pruned, RemoveHandler, Retention, Settled, Subscribe, Unfinished};

use crate::harness::{LONG, Test, case, until};
use crate::words::{ClaimWords, Held, Verb, bury, claim, complete, event, handler, reschedule};

/// Keeps nothing that is settled.
const NOTHING: Retention = Retention { completed: Duration::ZERO, buried: Duration::ZERO };

/// Keeps everything.
const ALL: Retention = Retention { completed: LONG, buried: LONG };

/// A delivery of a handler of its own in each status.
async fn one_of_each(t: &Test) -> [(Status, Held); 4] {
    let mut held = Vec::new();
    for (status, verb) in [
        (Status::Pending, Some(Verb::Reschedule)),
        (Status::Processing, None),
        (Status::Completed, Some(Verb::Complete)),
        (Status::Buried, Some(Verb::Bury)),
    ] {
        let (_, one) = t.hold_one_of(status.as_str(), status.as_str()).await;
        if let Some(verb) = verb {
            t.settle(verb.of(one.lease)).await;
        }
        held.push((status, one));
    }
    held.try_into().expect("one of each")
}

/// Prunes once everything that happened so far lies in the past.
async fn prune(t: &Test, retention: Retention) -> Pruned {
    t.tick().await;
    t.operators.prune(retention).await.expect("what is old enough is pruned")
}

fn remove(name: &str, unfinished: Unfinished) -> RemoveHandler {
    RemoveHandler { tenant: "default".to_owned(), name: name.to_owned(), unfinished }
}

case!(o1_a_list_holds_what_meets_every_condition, |t| async move {
    let acme = |name: &str| Subscribe { tenant: "acme".to_owned(), ..handler(name, &["order.*"]) };
    t.subscribe(handler("mailer", &["order.*"])).await;
    t.subscribe(handler("auditor", &["order.*"])).await;
    t.subscribe(acme("mailer")).await;
    t.publish_all(vec![event("order.created"), event("order.paid"), NewEvent { tenant: "acme".to_owned(), ..event("order.paid") }]).await;
    let text = |text: &str| Some(text.to_owned());

    let lists = [
        (List::default(), 5),
        (List { tenant: text("acme"), ..List::default() }, 1),
        (List { handler: text("mailer"), ..List::default() }, 3),
        (List { topic: text("order.paid"), ..List::default() }, 3),
        (List { handler: text("mailer"), topic: text("order.paid"), tenant: text("default"), ..List::default() }, 1),
        (List { status: Some(Status::Pending), ..List::default() }, 5),
        (List { status: Some(Status::Buried), ..List::default() }, 0),
        (List { tenant: text("nobody"), ..List::default() }, 0),
    ];

    for (conditions, expected) in lists {
        assert_eq!(t.list(conditions.clone()).await.len(), expected, "{conditions:?}");
    }
});

case!(o1_each_status_is_listed_by_itself, |t| async move {
    for (status, held) in one_of_each(&t).await {
        let listed: Vec<_> = t.list(List { status: Some(status), ..List::default() }).await.into_iter().map(|one| one.id).collect();
        assert_eq!(listed, [held.delivery.id], "{status}");
    }
});

case!(o1_a_list_is_continued_before_an_id_latest_first, |t| async move {
    t.subscribe(handler("mailer", &["order.*"])).await;
    t.publish_many("order.created", 7).await;
    let page = |before: Option<DeliveryId>| t.operators.list(List { before, limit: 3, ..List::default() });

    let (mut told, mut before) = (Vec::new(), None);
    loop {
        let page: Vec<_> = page(before).await.expect("a page").iter().map(|delivery| delivery.id).collect();
        assert!(page.len() <= 3);
        let Some(last) = page.last() else { break };
        before = Some(*last);
        told.extend(page);
    }

    assert!(told.len() == 7 && told.is_sorted_by(|a, b| a > b), "expected seven ids, latest first, got {told:?}");
});

case!(o2_a_delivery_is_shown_with_its_event_and_each_attempt, |t| async move {
    let mailer = t.subscribe(handler("mailer", &["order.*"])).await;
    let sent = NewEvent { key: Some("k".to_owned()), payload: vec![0, 255].into(), ..event("order.created") };
    t.publish(sent.clone()).await;
    for _ in 0..2 {
        let held = t.hold_when_due(claim(mailer)).await;
        t.settle(reschedule(held.lease, Duration::ZERO)).await;
    }
    let id = t.list(List::default()).await[0].id;

    let shown = t.details(id).await;

    assert_eq!((shown.summary.event_id, shown.summary.key, shown.payload), (sent.id, sent.key, sent.payload));
    assert_eq!(
        (shown.summary.tenant.as_str(), shown.summary.handler.as_str(), shown.summary.topic.as_str()),
        ("default", "mailer", "order.created")
    );
    assert_eq!((shown.content_type, shown.headers), (sent.content_type, sent.headers));
    assert_eq!(shown.attempt_records.iter().map(|record| record.attempt).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(shown.summary.message.as_deref(), Some("it failed"));
});

case!(o2_a_delivery_that_is_not_there_is_not_found, |t| async move {
    let unknown = DeliveryId(uuid::Uuid::new_v4());

    let error = t.operators.show(unknown).await.expect_err("there is no such delivery");

    assert_eq!(error.kind, ErrorKind::NotFound);
    assert_eq!(t.change(unknown, Change::Redrive).await, Changed::NotFound);
});

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

    let pruned = prune(&t, ALL).await;

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
        let all = claim(mailer);
        let token = all.token;
        let held = t.claim(all).await.deliveries;
        t.settle_all(held.iter().map(|one| complete(relaybus_host::lease::Lease { delivery: one.id, token })).collect()).await;
    }

    let pruned = prune(&t, NOTHING).await;

    assert_eq!((pruned.n_deliveries, pruned.n_events, t.list(List::default()).await.len()), (3000, 3000, 0));
});

case!(o9_handlers_are_listed_by_tenant_and_name_with_what_they_have, |t| async move {
    one_of_each(&t).await;
    t.subscribe(Subscribe { tenant: "acme".to_owned(), max_attempts: 4, max_crashes: 2, ..handler("zebra", &["b.>", "a"]) }).await;

    let handlers = t.reopen().await.operators.list_handlers().await.expect("handlers are listed");

    let names: Vec<_> = handlers.iter().map(|one| (one.tenant.as_str(), one.name.as_str())).collect();
    assert_eq!(
        names,
        [("acme", "zebra"), ("default", "buried"), ("default", "completed"), ("default", "pending"), ("default", "processing")]
    );
    let counts: Vec<_> = handlers.iter().map(|one| [one.pending, one.processing, one.completed, one.buried]).collect();
    assert_eq!(counts, [[0, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0], [1, 0, 0, 0], [0, 1, 0, 0]]);
    let mut topics = handlers[0].topics.clone();
    topics.sort();
    assert_eq!((topics, handlers[0].max_attempts, handlers[0].max_crashes), (vec!["a".to_owned(), "b.>".to_owned()], 4, 2));
});

case!(o9_the_backlog_counts_pending_and_processing_of_the_named_handlers, |t| async move {
    let each = one_of_each(&t).await;
    let handlers: Vec<_> = each.iter().map(|(_, held)| held.delivery.handler).collect();

    let (all, one, none) = (t.store.backlog(&handlers).await, t.store.backlog(&handlers[..1]).await, t.store.backlog(&[]).await);

    assert_eq!(all.expect("a count"), Backlog { n_pending: 1, n_processing: 1 });
    assert_eq!(one.expect("a count"), Backlog { n_pending: 1, n_processing: 0 });
    assert_eq!(none.expect("a count"), Backlog::default());
});

case!(o10_a_handler_with_unfinished_deliveries_is_not_removed, |t| async move {
    one_of_each(&t).await;

    for name in ["pending", "processing"] {
        let error = t.operators.remove_handler(remove(name, Unfinished::Refuse)).await.expect_err("the handler has work");
        assert_eq!(error.kind, ErrorKind::Conflict, "{name}");
    }

    assert_eq!(t.operators.list_handlers().await.expect("handlers are listed").len(), 4);
    assert_eq!(t.publish(event("pending")).await.n_deliveries, 1);
});

case!(o10_a_handler_is_removed_with_its_subscriptions, |t| async move {
    t.subscribe(handler("mailer", &["order.*"])).await;

    t.operators.remove_handler(remove("mailer", Unfinished::Refuse)).await.expect("the handler is removed");

    let again = t.operators.remove_handler(remove("mailer", Unfinished::Refuse)).await.expect_err("it is gone");
    assert_eq!(again.kind, ErrorKind::NotFound);
    assert!(t.operators.list_handlers().await.expect("handlers are listed").is_empty());
    assert_eq!(t.publish(event("order.created")).await.n_deliveries, 0);
});

case!(o10_unfinished_deliveries_are_buried_if_that_is_wanted, |t| async move {
    let (_, held) = t.hold_one("mailer").await;
    t.publish(event("order.created")).await;

    t.operators.remove_handler(remove("mailer", Unfinished::Bury)).await.expect("the handler is removed");

    assert_eq!(t.settle(complete(held.lease)).await, Settled::LeaseLost);
    assert!(
        t.list(List::default())
            .await
            .iter()
            .all(|delivery| delivery.status == Status::Buried && delivery.reason.as_deref() == Some("operator"))
    );
    assert_eq!(t.publish(event("order.created")).await.n_deliveries, 0);
});

case!(o10_a_handler_of_another_tenant_is_left_alone, |t| async move {
    t.subscribe(Subscribe { tenant: "acme".to_owned(), ..handler("mailer", &["order.*"]) }).await;

    let error = t.operators.remove_handler(remove("mailer", Unfinished::Bury)).await.expect_err("there is none of this tenant");

    assert_eq!(error.kind, ErrorKind::NotFound);
});

case!(o1_after_close_every_call_is_unavailable, |t| async move {
    let mailer = t.subscribe(handler("mailer", &["order.*"])).await;
    let other = t.reopen().await;

    other.store.close().await;

    let kinds = [
        other.store.publish(vec![event("order.created")]).await.map(|_| ()).expect_err("closed").kind,
        other.store.claim(claim(mailer).limit(1)).await.map(|_| ()).expect_err("closed").kind,
        other.store.backlog(&[mailer]).await.map(|_| ()).expect_err("closed").kind,
        other.operators.list_handlers().await.map(|_| ()).expect_err("closed").kind,
    ];
    assert_eq!(kinds, [ErrorKind::Unavailable; 4]);
    assert_eq!(t.publish(event("order.created")).await.n_deliveries, 1);
});

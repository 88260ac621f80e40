//! What people are promised when they look.

use std::time::Duration;

use relaybus_host::delivery::{DeliveryId, NewEvent, Status};
use relaybus_host::store::{Change, Changed, ErrorKind, List, Subscribe};

use super::one_of_each;
use crate::harness::case;
use crate::words::{claim, event, handler, reschedule};

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

//! What publishing promises.

use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use relaybus_host::delivery::{Header, NewEvent};
use relaybus_host::store::{List, Subscribe};

use crate::harness::{LONG, PATIENCE, case};
use crate::words::{ClaimWords, claim, event, handler, ids};

case!(p1_each_matching_handler_gets_one_delivery_however_many_patterns_match, |t| async move {
    let mailer = t.subscribe(handler("mailer", &["order.created", "order.*", ">"])).await;
    let auditor = t.subscribe(handler("auditor", &["order.>"])).await;
    let other = t.subscribe(handler("other", &["invoice.*"])).await;

    let published = t.publish(event("order.created")).await;

    assert_eq!(published.n_deliveries, 2);
    for (id, expected) in [(mailer, 1), (auditor, 1), (other, 0)] {
        assert_eq!(t.claim(claim(id)).await.deliveries.len(), expected);
    }
});

case!(p1_handlers_of_other_tenants_get_nothing, |t| async move {
    t.subscribe(handler("mailer", &[">"])).await;
    t.subscribe(Subscribe { tenant: "acme".to_owned(), ..handler("mailer", &[">"]) }).await;

    let published = t.publish(NewEvent { tenant: "acme".to_owned(), ..event("order.created") }).await;

    assert_eq!(published.n_deliveries, 1);
    let tenants: Vec<_> = t.list(List::default()).await.into_iter().map(|delivery| delivery.tenant).collect();
    assert_eq!(tenants, ["acme"]);
});

case!(p2_r22_what_was_accepted_is_claimed_byte_for_byte_by_another_process, |t| async move {
    let mailer = t.subscribe(handler("mailer", &["order.created"])).await;
    let every_byte: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    let headers = [("trace", ""), ("Trace", "ä\"\\'\u{1F600}\n\t"), ("trace", "twice")];
    let sent = NewEvent {
        key: Some("key \u{7F} 'ß'".to_owned()),
        content_type: "application/octet-stream".to_owned(),
        headers: headers.map(|(name, value)| Header { name: name.to_owned(), value: value.to_owned() }).to_vec(),
        payload: every_byte.into(),
        ..event("order.created")
    };
    t.publish(sent.clone()).await;

    let got = t.reopen().await.hold(claim(mailer)).await.delivery;

    assert_eq!((got.event_id, got.topic, got.key, got.content_type), (sent.id, sent.topic, sent.key, sent.content_type));
    assert_eq!(got.headers, sent.headers);
    assert!(got.payload == sent.payload, "expected the payload byte for byte, got {} bytes", got.payload.len());
});

case!(p2_an_empty_payload_stays_one, |t| async move {
    let mailer = t.subscribe(handler("mailer", &["order.created"])).await;
    t.publish(NewEvent { payload: Vec::new().into(), ..event("order.created") }).await;

    let got = t.hold(claim(mailer)).await.delivery;

    assert!(got.payload.is_empty() && got.headers.is_empty() && got.key.is_none());
});

case!(p3_r4_a_delayed_event_is_not_handed_out_before_its_delay, |t| async move {
    let mailer = t.subscribe(handler("mailer", &["order.created"])).await;
    let (delay, before) = (Duration::from_millis(400), t.now().await);
    t.publish(NewEvent { delay, ..event("order.created") }).await;

    t.hold_when_due(claim(mailer)).await;

    let waited = t.now().await - before;
    assert!(waited >= TimeDelta::from_std(delay).expect("a short delay") - TimeDelta::milliseconds(1), "handed out after {waited}");
});

case!(p3_a_long_delay_does_not_come_due, |t| async move {
    let mailer = t.subscribe(handler("mailer", &["order.created"])).await;
    t.publish_all(vec![NewEvent { delay: LONG, ..event("order.created") }, event("order.created")]).await;

    assert_eq!(t.claim(claim(mailer)).await.deliveries.len(), 1);
});

case!(p4_the_same_dedup_id_stores_nothing_and_answers_the_first_event, |t| async move {
    t.subscribe(handler("mailer", &["order.*"])).await;
    let with_id = |topic: &str, tenant: &str| NewEvent { dedup_id: Some("order-1".to_owned()), tenant: tenant.to_owned(), ..event(topic) };
    let first = t.publish(with_id("order.created", "default")).await;

    let again = t.reopen().await.publish(with_id("order.created", "default")).await;
    let other_topic = t.publish(with_id("order.paid", "default")).await;
    let other_tenant = t.publish(with_id("order.created", "acme")).await;

    assert_eq!((again.event, again.is_duplicate, first.is_duplicate), (first.event, true, false));
    assert!(!other_topic.is_duplicate && !other_tenant.is_duplicate);
    assert_eq!(t.list(List::default()).await.len(), 2);
});

case!(p4_the_same_dedup_id_twice_in_one_batch_stores_one_event, |t| async move {
    let mailer = t.subscribe(handler("mailer", &["order.*"])).await;
    let with_id = || NewEvent { dedup_id: Some("order-1".to_owned()), ..event("order.created") };

    let published = t.publish_all(vec![with_id(), event("order.created"), with_id()]).await;

    assert_eq!(published.iter().map(|event| event.is_duplicate).collect::<Vec<_>>(), [false, false, true]);
    assert_eq!(published[2].event, published[0].event);
    assert_eq!(t.claim(claim(mailer)).await.deliveries.len(), 2);
});

case!(p4_publishers_of_one_dedup_id_at_once_store_one_event, |t| async move {
    t.subscribe(handler("mailer", &["order.*"])).await;
    let with_id = || NewEvent { dedup_id: Some("order-1".to_owned()), ..event("order.created") };
    let others = [t.reopen().await, t.reopen().await, t.reopen().await];

    let published = futures::future::join_all(others.iter().map(|process| process.publish(with_id()))).await;

    assert_eq!(published.iter().filter(|event| !event.is_duplicate).count(), 1);
    assert!(published.iter().all(|event| event.event == published[0].event));
    assert_eq!(t.list(List::default()).await.len(), 1);
});

case!(p5_the_same_event_again_stores_nothing_and_answers_as_the_first_time, |t| async move {
    let mailer = t.subscribe(handler("mailer", &["order.*"])).await;
    t.subscribe(handler("auditor", &[">"])).await;
    let sent = NewEvent { dedup_id: Some("order-1".to_owned()), ..event("order.created") };
    let first = t.publish(sent.clone()).await;
    t.hold(claim(mailer)).await;

    let again = t.reopen().await.publish(sent).await;

    assert_eq!(again, first);
    assert_eq!(t.list(List::default()).await.len(), 2);
    assert!(ids(&t.claim(claim(mailer)).await).is_empty());
});

case!(p5_the_same_event_twice_in_one_batch_is_stored_once, |t| async move {
    let mailer = t.subscribe(handler("mailer", &["order.*"])).await;
    let sent = event("order.created");

    let published = t.publish_all(vec![sent.clone(), event("order.paid"), sent]).await;

    assert_eq!(published[2], published[0]);
    assert_eq!(t.claim(claim(mailer)).await.deliveries.len(), 2);
});

case!(p5_the_same_event_from_several_processes_at_once_is_stored_once, |t| async move {
    t.subscribe(handler("mailer", &["order.*"])).await;
    let sent: Vec<_> = std::iter::repeat_with(|| event("order.created")).take(50).collect();
    let backwards: Vec<_> = sent.iter().rev().cloned().collect();
    let (one, other) = (t.reopen().await, t.reopen().await);

    let (first, mut second) = tokio::join!(one.publish_all(sent), other.publish_all(backwards));

    second.reverse();
    assert_eq!(first, second);
    assert_eq!(t.list(List::default()).await.len(), 50);
});

case!(p6_an_event_that_nobody_subscribes_to_is_accepted_and_fans_out_to_nothing, |t| async move {
    let published = t.publish(event("order.created")).await;
    let mailer = t.subscribe(handler("mailer", &[">"])).await;

    assert_eq!((published.n_deliveries, published.is_duplicate), (0, false));
    assert!(t.claim(claim(mailer)).await.deliveries.is_empty());
});

case!(p7_r23_an_event_that_cannot_be_stored_is_rejected_by_itself, |t| async move {
    let mailer = t.subscribe(handler("mailer", &["order.*"])).await;
    let unstorable = NewEvent { tenant: "no\0tenant".to_owned(), ..event("order.created") };

    let published = t.store.publish(vec![event("order.created"), unstorable, event("order.paid")]).await.expect("the batch is answered");

    assert_eq!(published.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true]);
    assert_eq!(t.claim(claim(mailer)).await.deliveries.len(), 2);
});

case!(p7_texts_with_a_nul_are_kept_whole_or_rejected_by_themselves, |t| async move {
    let mailer = t.subscribe(handler("mailer", &["order.*"])).await;
    let nul = || "a\0b".to_owned();
    let odd = vec![
        NewEvent { key: Some(nul()), ..event("order.created") },
        NewEvent { content_type: nul(), ..event("order.created") },
        NewEvent { dedup_id: Some(nul()), ..event("order.created") },
        NewEvent { headers: vec![Header { name: "trace".to_owned(), value: nul() }], ..event("order.created") },
        NewEvent { headers: vec![Header { name: nul(), value: "trace".to_owned() }], ..event("order.created") },
        event("order.created"),
    ];

    let published = t.store.publish(odd.clone()).await.expect("the batch is answered");

    let claimed = t.claim(claim(mailer)).await.deliveries;
    assert!(published[5].is_ok());
    for (sent, published) in odd.iter().zip(&published) {
        let kept = claimed.iter().find(|delivery| delivery.event_id == sent.id);
        let kept = kept.map(|delivery| (&delivery.key, &delivery.content_type, &delivery.headers));
        assert_eq!(kept, published.is_ok().then_some((&sent.key, &sent.content_type, &sent.headers)));
    }
});

case!(p7_a_delay_beyond_all_time_is_kept_or_rejected_by_itself, |t| async move {
    let mailer = t.subscribe(handler("mailer", &["order.*"])).await;
    let endless = NewEvent { delay: Duration::MAX, ..event("order.created") };

    let published = t.store.publish(vec![endless, event("order.paid")]).await.expect("the batch is answered");

    assert!(published[1].is_ok());
    assert_eq!(t.hold(claim(mailer)).await.delivery.event_id, published[1].as_ref().expect("it is accepted").event);
});

case!(p8_a_publish_wakes_an_idle_worker_of_the_same_process, |t| async move {
    let mailer = t.subscribe(handler("mailer", &["order.*"])).await;
    t.claim(claim(mailer)).await;
    let store = Arc::clone(&t.store);
    let idle = tokio::spawn(async move { store.wait_for_work(LONG).await });

    t.publish(event("order.created")).await;

    tokio::time::timeout(PATIENCE, idle).await.expect("the worker is woken").expect("waiting does not panic");
});

case!(p1_a_batch_of_a_thousand_events_is_stored_whole, |t| async move {
    let mailer = t.subscribe(handler("mailer", &["order.*"])).await;
    let events: Vec<_> = std::iter::repeat_with(|| event("order.created")).take(1000).collect();
    let sent: Vec<_> = events.iter().map(|event| event.id).collect();

    let published = t.publish_all(events).await;

    assert_eq!(published.iter().map(|event| event.event).collect::<Vec<_>>(), sent);
    assert_eq!(t.claim(claim(mailer).limit(2000)).await.deliveries.len(), 1000);
});

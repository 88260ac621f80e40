//! What subscribing promises.

use relaybus_host::store::{List, Subscribe};

use crate::harness::case;
use crate::words::{claim, event, handler};

case!(s1_the_handler_is_found_again_by_tenant_and_name, |t| async move {
    let first = t.subscribe(handler("mailer", &["order.created"])).await;

    let again = t.reopen().await.subscribe(handler("mailer", &["order.paid"])).await;
    let other_name = t.subscribe(handler("auditor", &["order.paid"])).await;
    let other_tenant = t.subscribe(Subscribe { tenant: "acme".to_owned(), ..handler("mailer", &["order.paid"]) }).await;

    assert_eq!(again, first);
    assert!(other_name != first && other_tenant != first && other_name != other_tenant);
});

case!(s1_topics_digest_and_limits_are_replaced, |t| async move {
    t.subscribe(handler("mailer", &["order.created", "order.paid"])).await;
    let changed = Subscribe { digest: "e2".repeat(32), max_attempts: 7, max_crashes: 3, ..handler("mailer", &["invoice.*"]) };

    t.subscribe(changed).await;

    let stored = t.reopen().await.operators.list_handlers().await.expect("handlers are listed").remove(0);
    assert_eq!((stored.topics, stored.digest), (vec!["invoice.*".to_owned()], "e2".repeat(32)));
    assert_eq!((stored.max_attempts, stored.max_crashes), (7, 3));
});

case!(s1_a_new_limit_holds_for_deliveries_that_exist, |t| async move {
    let mailer = t.subscribe(handler("mailer", &["order.created"])).await;
    t.publish(event("order.created")).await;

    t.subscribe(Subscribe { max_attempts: 7, ..handler("mailer", &["order.created"]) }).await;

    assert_eq!(t.hold(claim(mailer)).await.delivery.max_attempts, 7);
});

case!(s1_processes_that_subscribe_at_once_agree_on_one_handler, |t| async move {
    let others = [t.reopen().await, t.reopen().await, t.reopen().await];

    let answers = futures::future::join_all(others.iter().map(|process| process.subscribe(handler("mailer", &["a", "b.*", ">"])))).await;

    assert!(answers.iter().all(|id| *id == answers[0]), "expected one id, got {answers:?}");
    assert_eq!(t.publish(event("a")).await.n_deliveries, 1);
});

case!(s2_topics_no_longer_named_receive_nothing_and_old_deliveries_stay, |t| async move {
    let mailer = t.subscribe(handler("mailer", &["order.created"])).await;
    t.publish(event("order.created")).await;

    t.subscribe(handler("mailer", &["order.paid"])).await;

    assert_eq!(t.publish(event("order.created")).await.n_deliveries, 0);
    assert_eq!(t.publish(event("order.paid")).await.n_deliveries, 1);
    assert_eq!(t.list(List::default()).await.len(), 2);
    assert_eq!(t.claim(claim(mailer)).await.deliveries.len(), 2);
});

case!(s3_the_digest_that_was_stored_before_is_answered, |t| async move {
    let with_digest = |digest: &str| Subscribe { digest: digest.repeat(32), ..handler("mailer", &["order.created"]) };

    let first = t.store.subscribe(with_digest("aa")).await.expect("the subscription is stored");
    let second = t.store.subscribe(with_digest("bb")).await.expect("the subscription is stored");
    let third = t.store.subscribe(with_digest("bb")).await.expect("the subscription is stored");

    assert_eq!(first.previous_digest, None);
    assert_eq!((second.previous_digest, third.previous_digest), (Some("aa".repeat(32)), Some("bb".repeat(32))));
});

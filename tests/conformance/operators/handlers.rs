//! What people are promised about handlers: to list and to remove them.

use relaybus_host::delivery::Status;
use relaybus_host::store::{Backlog, ErrorKind, List, RemoveHandler, Settled, Subscribe, Unfinished};

use super::one_of_each;
use crate::harness::case;
use crate::words::{claim, complete, event, handler};

fn remove(name: &str, unfinished: Unfinished) -> RemoveHandler {
    RemoveHandler { tenant: "default".to_owned(), name: name.to_owned(), unfinished }
}

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

case!(o10_a_removed_handler_may_subscribe_again, |t| async move {
    t.subscribe(handler("mailer", &["order.*"])).await;
    t.operators.remove_handler(remove("mailer", Unfinished::Refuse)).await.expect("the handler is removed");

    let again = t.subscribe(handler("mailer", &["order.*"])).await;

    assert_eq!(t.publish(event("order.created")).await.n_deliveries, 1);
    assert_eq!(t.claim(claim(again)).await.deliveries.len(), 1);
});

case!(o10_a_handler_of_another_tenant_is_left_alone, |t| async move {
    t.subscribe(Subscribe { tenant: "acme".to_owned(), ..handler("mailer", &["order.*"]) }).await;

    let error = t.operators.remove_handler(remove("mailer", Unfinished::Bury)).await.expect_err("there is none of this tenant");

    assert_eq!(error.kind, ErrorKind::NotFound);
});

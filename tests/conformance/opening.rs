//! What holds of a whole opening: what it declares, how it ends, and what cannot be opened at all.

use futures::future::join_all;
use relaybus_host::store::{self, Backend, ClockOwner, ErrorKind, StoreOptions};
use relaybus_tests::stores::Database;

use crate::harness::case;
use crate::words::{claim, event, handler};

case!(the_capabilities_name_the_backend_and_its_clock, |t| async move {
    let capabilities = t.store.capabilities();

    let expected = match t.backend() {
        Backend::Sqlite => ClockOwner::Host,
        Backend::Postgres | Backend::MongoDb => ClockOwner::Server,
    };
    assert_eq!((capabilities.backend, capabilities.clock), (t.backend(), expected));
});

case!(after_close_every_call_is_unavailable, |t| async move {
    let mailer = t.subscribe(handler("mailer", &["order.*"])).await;
    let other = t.reopen().await;

    other.store.close().await;

    let kinds = [
        other.store.publish(vec![event("order.created")]).await.map(|_| ()).expect_err("closed").kind,
        other.store.claim(claim(mailer)).await.map(|_| ()).expect_err("closed").kind,
        other.store.backlog(&[mailer]).await.map(|_| ()).expect_err("closed").kind,
        other.operators.list_handlers().await.map(|_| ()).expect_err("closed").kind,
    ];
    assert_eq!(kinds, [ErrorKind::Unavailable; 4]);
    assert_eq!(t.publish(event("order.created")).await.n_deliveries, 1);
});

case!(what_was_stored_is_there_after_every_opening_was_closed, |t| async move {
    let mailer = t.subscribe(handler("mailer", &["order.*"])).await;
    let published = t.publish(event("order.created")).await;
    t.store.close().await;

    let held = t.reopen().await.hold(claim(mailer)).await;

    assert_eq!(held.delivery.event_id, published.event);
});

case!(processes_that_open_a_new_database_at_once_all_succeed, |t| async move {
    let database = Database::create_empty(t.backend()).await.expect("a database is made");

    let opened = join_all((0..6).map(|_| store::open(&database.url, StoreOptions::default()))).await;

    for opened in &opened {
        let store = &opened.as_ref().map_err(ToString::to_string).expect("the store opens").store;
        assert!(store.publish(vec![event("order.created")]).await.expect("the batch is stored")[0].is_ok());
    }
    database.remove().await;
});

case!(an_address_that_names_no_store_is_misconfigured, |t| async move {
    for address in ["", "relaybus", "mysql://localhost/relaybus"] {
        let error = store::open(address, StoreOptions::default()).await.err().expect("there is no such store");
        assert_eq!(error.kind, ErrorKind::Misconfigured, "`{address}`: {error}");
    }
    t.publish(event("order.created")).await;
});

//! The stores match topics in their own language: held to `TopicPattern::matches`.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use relaybus_host::delivery::{DeliveryId, NewEvent};
use relaybus_host::store::{List, Subscribe};
use relaybus_host::topic::{Topic, TopicPattern};
use tokio::runtime::Handle;

use crate::harness::{Test, case};
use crate::words::{event, handler};

/// Few and short tokens, so that patterns often match. `_` and `-` mean something in LIKE and in regular expressions.
const TOKENS: &str = "a|b|A|ab|_|-|a_|a-";

fn topics() -> impl Strategy<Value = Vec<Topic>> {
    let topic = prop::collection::vec(TOKENS, 1..5).prop_map(|tokens| tokens.join(".").parse().expect("a topic"));
    let longest = Just(["a"; 16].join(".").parse().expect("the longest topic"));
    prop::collection::vec(prop_oneof![9 => topic, 1 => longest], 1..8)
}

fn patterns() -> impl Strategy<Value = Vec<TopicPattern>> {
    let token = prop_oneof![2 => TOKENS, 1 => Just("*".to_owned())];
    let pattern = (prop::collection::vec(token, 0..5), any::<bool>()).prop_filter_map("no tokens", |(mut tokens, with_rest)| {
        tokens.extend(with_rest.then(|| ">".to_owned()));
        tokens.join(".").parse().ok()
    });
    prop::collection::vec(pattern, 0..4)
}

case!(p1_fan_out_matches_topics_as_patterns_do, |t| async move {
    let t = Arc::new(t);
    let runtime = Handle::current();
    let checked = tokio::task::spawn_blocking(move || {
        // A tenant of its own for each example: handlers of earlier ones must not take part.
        let n_examples = std::cell::Cell::new(0);
        let mut runner = TestRunner::new(Config { cases: 64, failure_persistence: None, ..Config::default() });
        runner.run(&(prop::collection::vec(patterns(), 1..5), topics()), |(handlers, topics)| {
            let tenant = format!("tenant-{}", n_examples.replace(n_examples.get() + 1));
            runtime.block_on(assert_fan_out(&t, &tenant, &handlers, &topics))
        })
    });
    checked.await.expect("the property runs").expect("the store's fan-out equals `TopicPattern::matches`");
});

/// Publishes to each topic, and compares which deliveries there are with those that the patterns ask for.
async fn assert_fan_out(t: &Test, tenant: &str, handlers: &[Vec<TopicPattern>], topics: &[Topic]) -> Result<(), TestCaseError> {
    let name_of = |n: usize| format!("handler-{n}");
    for (n, patterns) in handlers.iter().enumerate() {
        t.subscribe(Subscribe { tenant: tenant.to_owned(), topics: patterns.clone(), ..handler(&name_of(n), &[]) }).await;
    }
    let events: Vec<_> = topics.iter().map(|topic| NewEvent { tenant: tenant.to_owned(), ..event(topic.as_str()) }).collect();
    let published = t.publish_all(events.clone()).await;

    let there: BTreeSet<DeliveryId> =
        t.list(List { tenant: Some(tenant.to_owned()), ..List::default() }).await.iter().map(|delivery| delivery.id).collect();

    let mut expected = BTreeSet::new();
    for (event, published) in events.iter().zip(published) {
        let matching = (0..handlers.len()).filter(|n| handlers[*n].iter().any(|pattern| pattern.matches(&event.topic)));
        let ids: Vec<_> = matching.map(|n| DeliveryId::derive(event.id, tenant, &name_of(n))).collect();
        prop_assert_eq!(published.n_deliveries, ids.len() as u64, "deliveries told of `{}`", event.topic);
        expected.extend(ids);
    }
    prop_assert_eq!(there, expected);
    Ok(())
}

//! The faults themselves: by one seed the same goes wrong again, and a fault is what it says it is.

use std::sync::Arc;
use std::time::Duration;

use relaybus_host::delivery::NewEvent;
use relaybus_host::store::{ErrorKind, Outcome, Store};
use relaybus_tests::faulty::{Faulty, Rates, Verb};
use relaybus_tests::rig::Rig;

/// Everything goes wrong at once.
const QUICK: Rates = Rates { fail_before: 30, fail_after: 20, lose_reply: 20, ..Rates::NONE };

#[tokio::test]
async fn by_the_same_seed_each_verb_meets_the_same_faults_whatever_else_is_called() {
    let rig = Rig::new().await;
    let alone = Faulty::over(Arc::clone(&rig.opened.store), |_| QUICK, 7);
    let between = Faulty::over(Arc::clone(&rig.opened.store), |_| QUICK, 7);
    let mut n_failed = 0;
    for n in 0..50 {
        let first = alone.backlog(&[]).await.map_err(|error| error.message);
        let _ = between.publish(Vec::new()).await;
        let second = between.backlog(&[]).await.map_err(|error| error.message);
        assert_eq!(first, second, "call {n}");
        n_failed += usize::from(first.is_err());
    }
    assert!((1..50).contains(&n_failed), "{n_failed} of 50 calls failed");
    rig.remove().await;
}

#[tokio::test]
async fn what_fails_before_is_not_done_and_what_fails_after_is() {
    let rig = Rig::new().await;
    rig.publish_for("noop", "noop.first", serde_json::json!(1)).await;
    let cases = [
        (Rates { fail_before: 100, ..Rates::NONE }, ErrorKind::Unavailable, Outcome::NotApplied, 0),
        (Rates { fail_after: 100, ..Rates::NONE }, ErrorKind::Unavailable, Outcome::Unknown, 1),
        (Rates { lose_reply: 100, ..Rates::NONE }, ErrorKind::Timeout, Outcome::Unknown, 1),
    ];
    for (rates, kind, outcome, n_stored) in cases {
        let before = rig.deliveries().await.len();
        let faulty = Faulty::over(Arc::clone(&rig.opened.store), |verb| if verb == Verb::Publish { rates } else { Rates::NONE }, 1);
        let event = NewEvent::new("noop.a".parse().unwrap(), "1");
        let error = faulty.publish(vec![event.clone()]).await.unwrap_err();
        assert_eq!((error.kind, error.outcome), (kind, outcome));
        assert_eq!((rig.deliveries().await.len() - before, faulty.n_faults()), (n_stored, 1));
        faulty.heal().await;
        faulty.publish(vec![event]).await.unwrap();
        assert_eq!(rig.deliveries().await.len() - before, 1, "published by the repetition at the latest");
    }
    rig.remove().await;
}

#[tokio::test]
async fn a_call_that_hangs_is_given_up_in_its_time() {
    let rig = Rig::new().await;
    let hanging = Rates { hang: 100, hang_for: Duration::from_millis(20), ..Rates::NONE };
    let faulty = Faulty::over(Arc::clone(&rig.opened.store), |_| hanging, 1);
    let began = std::time::Instant::now();
    let error = faulty.backlog(&[]).await.unwrap_err();
    assert_eq!((error.kind, error.outcome), (ErrorKind::Timeout, Outcome::Unknown));
    assert!(began.elapsed() >= hanging.hang_for);
    rig.remove().await;
}

#[tokio::test]
async fn a_late_call_is_given_up_first_and_done_afterwards() {
    let rig = Rig::new().await;
    rig.publish_for("noop", "noop.first", serde_json::json!(1)).await;
    let late = Rates { late: 100, hang_for: Duration::ZERO, ..Rates::NONE };
    let faulty = Faulty::over(Arc::clone(&rig.opened.store), |_| late, 1);
    let error = faulty.publish(vec![NewEvent::new("noop.a".parse().unwrap(), "1")]).await.unwrap_err();
    assert_eq!((error.kind, error.outcome), (ErrorKind::Timeout, Outcome::Unknown));
    faulty.heal().await;
    assert_eq!(rig.deliveries().await.len(), 2);
    rig.remove().await;
}

//! What holds when several processes are at it at once.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join_all;
use relaybus_host::delivery::{DeliveryId, HandlerId, Status};
use relaybus_host::lease::{Lease, Renewal};
use relaybus_host::store::{List, Settled};
use relaybus_tests::size;

use crate::harness::{LONG, Process, SHORT, Test, case};
use crate::words::{ClaimWords, claim, complete, event, handler, ids, release};

const N_CLAIMERS: usize = 8;

/// Enough for every claimer to meet every other one many times.
fn n_deliveries() -> usize {
    size::pick(2_000, 10_000)
}

async fn processes(t: &Test, n: usize) -> Vec<Process> {
    join_all((0..n).map(|_| t.reopen())).await
}

async fn publish_backlog(t: &Test, n: usize) -> HandlerId {
    let mailer = t.subscribe(handler("mailer", &["order.*"])).await;
    for _ in 0..n.div_ceil(1000) {
        t.publish_many("order.created", n.min(1000)).await;
    }
    mailer
}

/// Claims until nothing is due, and answers every id that was handed out.
async fn drain(process: Process, mailer: HandlerId, batch: u32) -> Vec<DeliveryId> {
    let mut taken = Vec::new();
    loop {
        let claimed = process.claim(claim(mailer).limit(batch)).await;
        assert!(claimed.deliveries.len() <= batch as usize, "expected at most {batch}, got {}", claimed.deliveries.len());
        if claimed.deliveries.is_empty() {
            return taken;
        }
        taken.extend(ids(&claimed));
    }
}

case!(c1_r1_claimers_of_several_processes_are_each_handed_others, |t| async move {
    let n = n_deliveries();
    let mailer = publish_backlog(&t, n).await;
    let claimers = processes(&t, N_CLAIMERS).await;

    let drained = claimers.into_iter().enumerate().map(|(n, process)| tokio::spawn(drain(process, mailer, [1, 7, 50, 100][n % 4])));
    let taken: Vec<_> = join_all(drained).await.into_iter().flat_map(|taken| taken.expect("a claimer does not panic")).collect();

    // A claimer stops at its first empty answer, while rows it skipped may be locked by a claim that then leaves them: look again.
    let rest = drain(t.reopen().await, mailer, 1000).await;
    let distinct: BTreeSet<_> = taken.iter().chain(&rest).collect();
    assert_eq!((distinct.len(), taken.len() + rest.len()), (n, n), "distinct ids against ids handed out");
    assert!(rest.len() < n / 10, "expected the claimers to take nearly everything, {} were left", rest.len());
});

case!(c1_r1_claimers_race_publishers_and_nothing_is_lost, |t| async move {
    let mailer = t.subscribe(handler("mailer", &["order.*"])).await;
    let claimers = processes(&t, 3).await;
    let publisher = t.reopen().await;

    let publishing = tokio::spawn(async move {
        for _ in 0..20 {
            publisher.publish_many("order.created", 20).await;
        }
    });
    let mut taken = Vec::new();
    while !publishing.is_finished() {
        taken.extend(join_all(claimers.iter().map(|process| process.claim(claim(mailer).limit(10)))).await.iter().flat_map(ids));
    }
    publishing.await.expect("the publisher does not panic");
    taken.extend(drain(t.reopen().await, mailer, 100).await);

    assert_eq!((taken.iter().collect::<BTreeSet<_>>().len(), taken.len()), (400, 400));
});

case!(t1_r11_of_a_late_settle_and_a_takeover_exactly_one_wins, |t| async move {
    let mailer = publish_backlog(&t, 300).await;
    let stalled = claim(mailer).lease(SHORT);
    let token = stalled.token;
    let leases: Vec<_> = ids(&t.claim(stalled).await).into_iter().map(|delivery| Lease { delivery, token }).collect();
    t.expired(leases[0]).await;
    let (holder, taker) = (t.reopen().await, t.reopen().await);

    let settling = async {
        let mut answers = BTreeMap::new();
        for batch in leases.chunks(10) {
            let settled = holder.settle_all(batch.iter().map(|lease| complete(*lease)).collect()).await;
            answers.extend(batch.iter().map(|lease| lease.delivery).zip(settled));
        }
        answers
    };
    let (answers, taken) = tokio::join!(settling, drain(taker, mailer, 10));

    let taken: BTreeSet<_> = taken.into_iter().collect();
    for (id, answer) in &answers {
        let expected = if taken.contains(id) { Settled::LeaseLost } else { Settled::Applied };
        assert_eq!(*answer, expected, "of a delivery that was taken over: {}", taken.contains(id));
    }
    assert_eq!(t.list(List { status: Some(Status::Processing), ..List::default() }).await.len(), taken.len());
});

case!(l4_r3_a_renewal_beside_a_settle_in_flight_says_lost_only_of_what_is_settled, |t| async move {
    let mailer = publish_backlog(&t, 300).await;
    let all = claim(mailer);
    let token = all.token;
    let leases: Vec<_> = ids(&t.claim(all).await).into_iter().map(|delivery| Lease { delivery, token }).collect();
    let (kept, finished) = leases.split_at(leases.len() / 2);
    let (settler, renewer) = (t.reopen().await, t.reopen().await);

    let settling = async {
        for batch in finished.chunks(5) {
            let settled = settler.settle_all(batch.iter().map(|lease| complete(*lease)).collect()).await;
            assert!(settled.iter().all(|settled| *settled == Settled::Applied), "a renewal beside it cost a settle: {settled:?}");
        }
    };
    let renewing = async {
        for _ in 0..20 {
            let renewals = renewer.extend_all(leases.clone(), LONG).await;
            let completed = t.list(List { status: Some(Status::Completed), ..List::default() }).await;
            let completed: BTreeSet<_> = completed.into_iter().map(|delivery| delivery.id).collect();
            for (lease, renewal) in leases.iter().zip(renewals) {
                assert!(renewal != Renewal::Lost || completed.contains(&lease.delivery), "lost, though not settled");
            }
        }
    };
    tokio::join!(settling, renewing);

    assert!(t.extend_all(kept.to_vec(), LONG).await.iter().all(|renewal| *renewal == Renewal::Renewed));
});

case!(l1_renewals_settles_and_claims_of_overlapping_batches_do_not_deadlock, |t| async move {
    let mailer = publish_backlog(&t, 200).await;
    let all = claim(mailer);
    let token = all.token;
    let leases: Vec<_> = ids(&t.claim(all).await).into_iter().map(|delivery| Lease { delivery, token }).collect();
    let backwards: Vec<_> = leases.iter().rev().copied().collect();
    let workers = processes(&t, 4).await;

    for _ in 0..5 {
        let (_, _, first, second) = tokio::join!(
            workers[0].extend_all(leases.clone(), LONG),
            workers[1].extend_all(backwards.clone(), LONG),
            workers[2].settle_all(leases[..50].iter().map(|lease| complete(*lease)).collect()),
            workers[3].settle_all(backwards[150..].iter().map(|lease| complete(*lease)).collect()),
        );
        assert!(first.iter().chain(&second).all(|settled| *settled == Settled::Applied));
    }
});

case!(t7_r15_deliveries_released_and_claimed_by_turns_keep_their_attempts, |t| async move {
    let mailer = publish_backlog(&t, 50).await;
    let workers = processes(&t, 4).await;

    let releasing = workers.into_iter().map(|process| async move {
        for _ in 0..10 {
            let some = claim(mailer).limit(20);
            let token = some.token;
            let leases = ids(&process.claim(some).await).into_iter().map(|delivery| Lease { delivery, token });
            let settled = process.settle_all(leases.map(release).collect()).await;
            assert!(settled.iter().all(|settled| *settled == Settled::Applied));
        }
    });
    join_all(releasing).await;

    let shown = t.list(List::default()).await;
    assert!(shown.len() == 50 && shown.iter().all(|delivery| (delivery.status, delivery.attempts) == (Status::Pending, 0)));
});

case!(s1_subscribing_again_and_again_beside_publishers_never_loses_a_delivery, |t| async move {
    t.subscribe(handler("mailer", &["order.*"])).await;
    let (host, publisher) = (t.reopen().await, t.reopen().await);

    let subscribing = async {
        for _ in 0..20 {
            host.subscribe(handler("mailer", &["order.*"])).await;
        }
    };
    let publishing = async {
        for _ in 0..20 {
            assert_eq!(publisher.publish(event("order.created")).await.n_deliveries, 1, "replaced topics were gone for a moment");
        }
    };
    tokio::join!(subscribing, publishing);

    assert_eq!(t.list(List::default()).await.len(), 20);
});

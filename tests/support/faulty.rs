//! A store that goes wrong by seed: it fails before or after it has done what it was asked, loses replies, takes its time, hangs, or does what
//! it was asked long after it was given up.
//!
//! What it does when it does it is the real store's. Nothing here makes an answer up: a fault is an error of the kind that a real store gives.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use relaybus_host::delivery::{HandlerId, NewEvent};
use relaybus_host::lease::{LeaseToken, Renewal};
use relaybus_host::store::{
    Backlog, Capabilities, Claim, Claimed, ErrorKind, ExtendLeases, Outcome, Published, Result, Settled, Settlement, Store, StoreError,
    Subscribe, Subscribed,
};
use tokio::task::JoinSet;

/// How often what goes wrong, in calls of a hundred; and how long things take.
#[derive(Clone, Copy, Debug)]
pub struct Rates {
    pub fail_before: u32,
    pub fail_after: u32,
    pub lose_reply: u32,
    pub delay: u32,
    pub hang: u32,
    pub late: u32,
    /// The longest delay.
    pub delay_up_to: Duration,
    /// The longest time that a call which was given up is still on its way, and twice the shortest. Longer than a lease, it comes when
    /// another worker holds that.
    pub late_by_up_to: Duration,
    /// After this long a store gives up a call that hangs.
    pub hang_for: Duration,
}

impl Rates {
    /// A bad day: a third of all calls go wrong in some way.
    pub const BAD_DAY: Self = Self {
        fail_before: 8,
        fail_after: 8,
        lose_reply: 6,
        delay: 8,
        hang: 3,
        late: 6,
        delay_up_to: Duration::from_millis(50),
        late_by_up_to: Duration::from_secs(2),
        hang_for: Duration::from_millis(300),
    };
}

impl Rates {
    /// Nothing goes wrong.
    pub const NONE: Self = Self { fail_before: 0, fail_after: 0, lose_reply: 0, delay: 0, hang: 0, late: 0, ..Self::BAD_DAY };

    /// Most calls come long after they were given up.
    pub const BELATED: Self = Self { fail_before: 10, late: 80, late_by_up_to: Duration::from_secs(3), ..Self::NONE };
}

/// Which call goes wrong: each verb by dice of its own, so that by one seed the n-th call of a verb meets the same, whatever came between.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    Subscribe,
    Publish,
    Claim,
    RecoverClaim,
    ExtendLeases,
    Settle,
    WaitForWork,
    Backlog,
}

impl Verb {
    const ALL: [Self; 8] = [
        Self::Subscribe,
        Self::Publish,
        Self::Claim,
        Self::RecoverClaim,
        Self::ExtendLeases,
        Self::Settle,
        Self::WaitForWork,
        Self::Backlog,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Subscribe => "subscribe",
            Self::Publish => "publish",
            Self::Claim => "claim",
            Self::RecoverClaim => "recover_claim",
            Self::ExtendLeases => "extend_leases",
            Self::Settle => "settle",
            Self::WaitForWork => "wait_for_work",
            Self::Backlog => "backlog",
        }
    }
}

/// What one call meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// Refused; nothing is done.
    Before,
    /// Done, and then the connection is lost.
    After,
    /// Done, and no reply comes in time.
    ReplyLost,
    Delay(Duration),
    /// No reply comes in time, and nobody knows whether it was done.
    Hang {
        is_done: bool,
    },
    /// No reply comes in time, and what was asked is done when nobody expects it any more.
    Late(Duration),
}

/// See the module.
pub struct Faulty {
    inner: Arc<dyn Store>,
    odds: HashMap<Verb, Odds>,
    is_on: AtomicBool,
    n_faults: AtomicU64,
    /// Calls that were given up and are still on their way.
    late: tokio::sync::Mutex<JoinSet<()>>,
}

/// How calls of one verb go.
struct Odds {
    rates: Rates,
    dice: Mutex<StdRng>,
}

impl Faulty {
    pub fn over(inner: Arc<dyn Store>, rates_of: impl Fn(Verb) -> Rates, seed: u64) -> Arc<Self> {
        let mut seeds = StdRng::seed_from_u64(seed);
        let mut odds = |verb| Odds { rates: rates_of(verb), dice: Mutex::new(StdRng::seed_from_u64(seeds.random())) };
        let odds = Verb::ALL.into_iter().map(|verb| (verb, odds(verb))).collect();
        Arc::new(Self { inner, odds, is_on: AtomicBool::new(true), n_faults: AtomicU64::new(0), late: tokio::sync::Mutex::default() })
    }

    /// From now on nothing goes wrong. Returns when what was late has arrived.
    pub async fn heal(&self) {
        self.is_on.store(false, Ordering::SeqCst);
        let mut late = self.late.lock().await;
        while late.join_next().await.is_some() {}
    }

    /// How many calls have met a fault.
    pub fn n_faults(&self) -> u64 {
        self.n_faults.load(Ordering::SeqCst)
    }

    fn throw(&self, verb: Verb) -> Fault {
        let fault = self.odds[&verb].throw();
        if !self.is_on.load(Ordering::SeqCst) || fault == Fault::None {
            return Fault::None;
        }
        self.n_faults.fetch_add(1, Ordering::SeqCst);
        fault
    }

    async fn run<T: Send + 'static, F: Future<Output = Result<T>> + Send + 'static>(
        &self,
        verb: Verb,
        call: impl FnOnce(Arc<dyn Store>) -> F,
    ) -> Result<T> {
        let call = call(Arc::clone(&self.inner));
        let error = |kind, outcome, message| Err(StoreError::new(verb.name(), kind, message).with_outcome(outcome));
        match self.throw(verb) {
            Fault::None => call.await,
            Fault::Before => error(ErrorKind::Unavailable, Outcome::NotApplied, "injected: refused"),
            Fault::After => {
                call.await?;
                error(ErrorKind::Unavailable, Outcome::Unknown, "injected: the connection was lost after the call")
            }
            Fault::ReplyLost => {
                call.await?;
                error(ErrorKind::Timeout, Outcome::Unknown, "injected: the reply was lost")
            }
            Fault::Delay(delay) => {
                crate::pause_for(delay).await;
                call.await
            }
            Fault::Hang { is_done } => {
                if is_done {
                    call.await?;
                }
                crate::pause_for(self.odds[&verb].rates.hang_for).await;
                error(ErrorKind::Timeout, Outcome::Unknown, "injected: no answer in time")
            }
            Fault::Late(by) => {
                let late = async move {
                    crate::pause_for(by).await;
                    let _ = call.await;
                };
                self.late.lock().await.spawn(late);
                crate::pause_for(self.odds[&verb].rates.hang_for).await;
                error(ErrorKind::Timeout, Outcome::Unknown, "injected: given up, and still on its way")
            }
        }
    }
}

impl Odds {
    fn throw(&self) -> Fault {
        let Rates { fail_before, fail_after, lose_reply, delay, hang, late, delay_up_to, late_by_up_to, .. } = self.rates;
        let mut dice = self.dice.lock().unwrap_or_else(PoisonError::into_inner);
        let faults = [
            (fail_before, Fault::Before),
            (fail_after, Fault::After),
            (lose_reply, Fault::ReplyLost),
            (delay, Fault::Delay(delay_up_to.mul_f64(dice.random()))),
            (hang, Fault::Hang { is_done: dice.random() }),
            (late, Fault::Late(late_by_up_to.mul_f64(0.5 + dice.random::<f64>() / 2.0))),
        ];
        let mut thrown = dice.random_range(0..100);
        for (rate, fault) in faults {
            if thrown < rate {
                return fault;
            }
            thrown -= rate;
        }
        Fault::None
    }
}

#[async_trait]
impl Store for Faulty {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }
    async fn subscribe(&self, request: Subscribe) -> Result<Subscribed> {
        self.run(Verb::Subscribe, |inner| async move { inner.subscribe(request).await }).await
    }
    async fn publish(&self, events: Vec<NewEvent>) -> Result<Vec<Result<Published>>> {
        self.run(Verb::Publish, |inner| async move { inner.publish(events).await }).await
    }
    async fn claim(&self, request: Claim) -> Result<Claimed> {
        self.run(Verb::Claim, |inner| async move { inner.claim(request).await }).await
    }
    async fn recover_claim(&self, token: LeaseToken) -> Result<Claimed> {
        self.run(Verb::RecoverClaim, |inner| async move { inner.recover_claim(token).await }).await
    }
    async fn extend_leases(&self, request: ExtendLeases) -> Result<Vec<Renewal>> {
        self.run(Verb::ExtendLeases, |inner| async move { inner.extend_leases(request).await }).await
    }
    async fn settle(&self, settlements: Vec<Settlement>) -> Result<Vec<Result<Settled>>> {
        self.run(Verb::Settle, |inner| async move { inner.settle(settlements).await }).await
    }
    /// A wake-up is a hint, and may be lost without a word.
    async fn wait_for_work(&self, timeout: Duration) {
        if self.throw(Verb::WaitForWork) == Fault::None {
            self.inner.wait_for_work(timeout).await;
        } else {
            crate::pause_for(timeout).await;
        }
    }
    async fn backlog(&self, handlers: &[HandlerId]) -> Result<Backlog> {
        let handlers = handlers.to_vec();
        self.run(Verb::Backlog, |inner| async move { inner.backlog(&handlers).await }).await
    }
    async fn close(&self) {
        self.heal().await;
        self.inner.close().await;
    }
}

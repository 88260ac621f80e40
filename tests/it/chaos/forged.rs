//! The checker itself: forged records, each against one rule, and one that keeps them all.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use libtest_mimic::Trial;
use uuid::Uuid;

use crate::history::{State, Status, Transition, check};

const LEASE: Duration = Duration::from_secs(10);

/// A record under construction: one delivery, in seconds from its first event.
struct Forged(Vec<Transition>);

impl Forged {
    fn new() -> Self {
        let born =
            State { status: Status::Pending, token: None, verb: None, due_at: Some(second(0)), attempts: 0, crashes: 0, worker: None };
        Self(vec![Transition { delivery: Uuid::nil(), at: second(0), by: None, before: None, after: Some(born) }])
    }

    /// The next change, `at` that second, by the session of that name.
    fn then(mut self, at: i64, by: &str, change: impl FnOnce(&mut State)) -> Self {
        let before = self.0.last().unwrap().after.clone().unwrap();
        let mut after = before.clone();
        change(&mut after);
        let (before, after) = (Some(before), Some(after));
        self.0.push(Transition { delivery: Uuid::nil(), at: second(at), by: Some(by.to_owned()), before, after });
        self
    }

    fn claim(self, at: i64, worker: &str) -> Self {
        self.then(at, worker, |state| {
            state.crashes += i64::from(state.status == Status::Processing);
            state.attempts += 1;
            (state.status, state.token, state.verb) = (Status::Processing, Some(Uuid::new_v4()), None);
            (state.due_at, state.worker) = (Some(second(at + 10)), Some(worker.to_owned()));
        })
    }

    fn release(self, at: i64, by: &str) -> Self {
        self.then(at, by, |state| {
            state.attempts -= 1;
            (state.status, state.due_at, state.verb) = (Status::Pending, Some(second(at)), Some("release".to_owned()));
        })
    }

    fn complete(self, at: i64, by: &str) -> Self {
        self.then(at, by, |state| (state.status, state.due_at, state.verb) = (Status::Completed, None, Some("complete".to_owned())))
    }
}

fn second(n: i64) -> DateTime<Utc> {
    DateTime::UNIX_EPOCH + TimeDelta::seconds(n)
}

pub(crate) fn trials() -> Vec<Trial> {
    let forged = [
        ("a lease under a valid one", "it was leased under a valid lease", Forged::new().claim(0, "a").claim(9, "b")),
        ("a claim before the time", "it was leased before it was due", Forged::new().claim(-1, "a")),
        ("a second settle", "it changed after it was settled", Forged::new().claim(0, "a").complete(1, "a").complete(2, "a")),
        ("a stale settle", "another worker than its holder", Forged::new().then_other("a").claim(0, "a").claim(10, "b").complete(11, "a")),
        ("a token twice", "its token is not new", Forged::new().claim(0, "a").release(1, "a").again(2)),
        (
            "an attempt too many",
            "attempts or crashes are miscounted",
            Forged::new().claim(0, "a").then(10, "b", |state| {
                (state.token, state.due_at, state.attempts) = (Some(Uuid::new_v4()), Some(second(20)), 3);
            }),
        ),
        (
            "a lease of another length",
            "not as long as it should be",
            Forged::new().claim(0, "a").then(1, "a", |state| {
                state.due_at = Some(second(611));
            }),
        ),
        (
            "a put back before the time",
            "a claim took it before it was due",
            Forged::new().claim(0, "a").then(5, "b", |state| {
                (state.status, state.token) = (Status::Pending, None);
            }),
        ),
        ("a gap", "the record has a gap", Forged::new().claim(0, "a").complete(1, "a").without(1)),
    ];
    let mut trials: Vec<Trial> = forged
        .into_iter()
        .map(|(name, problem, record)| {
            Trial::test(format!("checker::finds {name}"), move || match check(&record.0, LEASE) {
                Err(found) if found.contains(problem) => Ok(()),
                answer => Err(format!("expected `{problem}`, got {answer:?}").into()),
            })
        })
        .collect();
    trials.push(Trial::test("checker::finds nothing where nothing is", || {
        let sound = Forged::new().claim(0, "a").then(3, "a", |state| state.due_at = Some(second(13))).claim(13, "b").complete(14, "b");
        let facts = check(&sound.0, LEASE)?;
        let counts = [facts.n_completed, facts.n_claims, facts.n_takeovers, facts.n_renewals, facts.n_attributed];
        if counts == [1, 2, 1, 1, 1] { Ok(()) } else { Err(format!("{facts:?}").into()) }
    }));
    trials
}

impl Forged {
    /// Another delivery, whose claim tells whose session it is.
    fn then_other(mut self, worker: &str) -> Self {
        let other = Uuid::max();
        let claimed = Self::new().claim(0, worker).0.into_iter().map(|transition| Transition { delivery: other, ..transition });
        self.0.extend(claimed.collect::<Vec<_>>());
        let first = self.0.remove(0);
        self.0.push(first);
        self
    }

    /// A claim under the token of the one before.
    fn again(self, at: i64) -> Self {
        let token = self.0.last().unwrap().after.as_ref().unwrap().token;
        let mut again = self.claim(at, "b");
        again.0.last_mut().unwrap().after.as_mut().unwrap().token = token;
        again
    }

    fn without(mut self, n: usize) -> Self {
        self.0.remove(n);
        self
    }
}

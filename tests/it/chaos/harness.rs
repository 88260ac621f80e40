//! Cases, and the backends that each of them runs on.

use std::pin::Pin;
use std::time::Duration;

use libtest_mimic::Failed;
use relaybus_host::store::Backend;
use relaybus_tests::{size, stores};
use tokio::runtime::Runtime;

/// Which backends a case is about.
#[derive(Clone, Copy, Debug)]
pub(crate) enum On {
    Every,
    /// Those that several machines share.
    Servers,
}

impl On {
    fn includes(self, backend: Backend) -> bool {
        match (self, backend) {
            (Self::Every, _) | (Self::Servers, Backend::Postgres | Backend::MongoDb) => true,
            (Self::Servers, Backend::Sqlite) => false,
        }
    }
}

/// A case, as [`case!`] registers it.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) module: &'static str,
    pub(crate) on: On,
    pub(crate) run: fn(Backend) -> Body,
}

pub(crate) type Body = Pin<Box<dyn Future<Output = ()>>>;

inventory::collect!(Case);

/// Registers a case: `case!(On::Servers, r7_a_dead_worker_is_taken_over, |backend| async move { ... })`.
macro_rules! case {
    ($on:expr, $name:ident, $body:expr) => {
        inventory::submit! {
            $crate::harness::Case { name: stringify!($name), module: module_path!(), on: $on, run: |backend| $crate::harness::body($body, backend) }
        }
    };
}
pub(crate) use case;

/// Gives the closure in [`case!`] its type.
pub(crate) fn body<F: Future<Output = ()> + 'static>(case: impl FnOnce(Backend) -> F, backend: Backend) -> Body {
    Box::pin(case(backend))
}

pub(crate) fn cases_for(backend: Backend) -> impl Iterator<Item = &'static Case> {
    inventory::iter::<Case>().filter(move |case| case.on.includes(backend))
}

impl Case {
    /// Such as `postgres::kills::r7_...`.
    pub(crate) fn name_on(&self, backend: Backend) -> String {
        let module = self.module.rsplit("::").next().unwrap_or(self.module);
        format!("{}::{module}::{}", stores::name_of(backend), self.name)
    }
}

/// How long something that is waited for may take, on a machine that others use too.
pub(crate) fn patience() -> Duration {
    size::pick(Duration::from_secs(90), Duration::from_secs(1800))
}

pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    Runtime::new().expect("a runtime starts").block_on(future)
}

/// Runs a case; it fails by a panic.
pub(crate) fn run(case: &'static Case, backend: Backend) -> Result<(), Failed> {
    // What is waited for says itself what did not come.
    let longest = patience() * 3;
    let ended = block_on(async { tokio::time::timeout(longest, (case.run)(backend)).await });
    ended.map_err(|_| format!("expected the case to end within {longest:?}").into())
}

//! Real hosts, as processes, on real databases, while things go wrong around them.
//!
//! A case registers itself with [`case!`](harness::case) and runs on every backend that it is about: cases times backends, as in the conformance
//! suite. What has happened is not asked of the hosts: the database itself keeps a record of every change ([`audit`]), and a checker
//! ([`history`]) goes over it. `RELAYBUS_TEST_FULL=1` runs larger figures; `RELAYBUS_TEST_SKIP` skips backends by name.
#![allow(clippy::unwrap_used, reason = "a test fails where it expects too much")]

#[path = "chaos/harness.rs"]
mod harness;
#[path = "chaos/place.rs"]
mod place;
#[path = "chaos/audit.rs"]
mod audit;
#[path = "chaos/history.rs"]
mod history;
#[path = "chaos/forged.rs"]
mod forged;

#[path = "chaos/kills.rs"]
mod kills;
#[path = "chaos/drains.rs"]
mod drains;
#[path = "chaos/connections.rs"]
mod connections;
#[path = "chaos/outages.rs"]
mod outages;
#[path = "chaos/unreachable.rs"]
mod unreachable;
#[path = "chaos/stalls.rs"]
mod stalls;
#[path = "chaos/clocks.rs"]
mod clocks;
#[path = "chaos/commands.rs"]
mod commands;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};
use relaybus_tests::{servers, size, stores};

/// Each case keeps several hosts busy, and waits for leases to run out at other times.
const CASES_AT_ONCE: usize = 4;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = arguments.test_threads.or(Some(CASES_AT_ONCE));
    let mut trials = forged::trials();
    let mut summary = vec![format!("size: {}", size::pick("ordinary", "full"))];
    for backend in stores::BACKENDS {
        let is_skipped = stores::is_skipped(backend);
        let cases: Vec<_> = harness::cases_for(backend)
            .map(|case| Trial::test(case.name_on(backend), move || harness::run(case, backend)).with_ignored_flag(is_skipped))
            .collect();
        let n_selected = cases.iter().filter(|case| !arguments.is_filtered_out(case)).count();
        let fate = if is_skipped { format!("skipped by {}", stores::SKIP_VARIABLE) } else { "run".to_owned() };
        summary.push(format!("{}: {n_selected} of {} cases {fate}", stores::name_of(backend), cases.len()));
        trials.extend(cases);
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    if !arguments.list {
        println!("{}\n", summary.join("\n"));
    }
    harness::block_on(stores::remove_template());
    servers::stop();
    conclusion.exit_code()
}

//! The store contract, clause by clause, against every backend.
//!
//! A case registers itself with [`case!`](harness::case) under the clause's number (`c1_...`) and, where the clause keeps one, the rule's
//! (`r8`). A run is cases times backends. A backend that is missing makes its cases fail; `RELAYBUS_TEST_SKIP=postgres` skips it by name.

mod harness;
mod words;

mod claim;
mod clauses;
mod fencing;
mod isolation;
mod leases;
mod opening;
mod operators;
mod publish;
mod races;
mod settle;
mod subscribe;
mod topics;
mod wake;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};
use relaybus_tests::{servers, stores};

/// Cases mostly wait for leases to run out, so more of them fit on a machine than it has processors.
const CASES_AT_ONCE: usize = 8;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = arguments.test_threads.or(Some(CASES_AT_ONCE));
    let mut trials = vec![Trial::test("suite::every_clause_has_a_case", clauses::every_clause_has_a_case)];
    let mut summary = Vec::new();
    for backend in stores::BACKENDS {
        let is_skipped = stores::is_skipped(backend);
        let cases = harness::cases_for(backend).map(|case| {
            Trial::test(case.name_on(backend), move || harness::run(case, backend).map_err(Into::into)).with_ignored_flag(is_skipped)
        });
        let cases: Vec<_> = cases.collect();
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

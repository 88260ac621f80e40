//! Holds the suite itself to the contract: no clause without a case.

use std::collections::BTreeSet;

use libtest_mimic::Failed;

use crate::harness;

const CONTRACT: [&str; 2] = [include_str!("../../host/src/store/mod.rs"), include_str!("../../host/src/store/operators.rs")];

/// A clause is a doc line that starts with its number in bold; a case is named after it.
pub(crate) fn every_clause_has_a_case() -> Result<(), Failed> {
    let numbers = CONTRACT.iter().flat_map(|text| text.lines()).filter_map(|line| line.trim().strip_prefix("/// - **")?.split_once("**"));
    let clauses: BTreeSet<String> = numbers.map(|(number, _)| number.to_lowercase()).collect();
    let covered: BTreeSet<String> =
        harness::cases().filter_map(|case| case.name.split_once('_')).map(|(number, _)| number.to_owned()).collect();
    let missing: Vec<_> = clauses.difference(&covered).collect();
    if clauses.is_empty() || !missing.is_empty() {
        return Err(format!("expected a case for each of {} clauses, got none for {missing:?}", clauses.len()).into());
    }
    Ok(())
}

//! The table of rules: the first that applies decides.
//!
//! Nothing here knows where a subject comes from or where the decision goes.

use crate::webhook::{Kind, Subject};

/// Where a subject goes, and why.
pub(crate) struct Rule {
    /// A token of a topic.
    pub(crate) queue: &'static str,
    /// 1 is today, 4 is never mind.
    pub(crate) priority: u8,
    pub(crate) why: &'static str,
    applies: fn(&Subject<'_>) -> bool,
}

/// A pull request of at most so many changed lines is read in five minutes.
const QUICK_LINES: u64 = 20;
/// Beyond this many changed lines reviewers find fewer mistakes.
const LARGE_LINES: u64 = 400;
/// Words that make somebody look at once. A false alarm costs a minute.
const SECURITY_WORDS: &[&str] = &["cve-", "exploit", "remote code execution", "sql injection", "vulnerab", "xss"];

const RULES: &[Rule] = &[
    Rule { queue: "done", priority: 4, why: "closed, deleted or moved away", applies: |subject| !subject.is_open },
    Rule { queue: "security", priority: 1, why: "labelled or worded like a vulnerability", applies: is_about_security },
    Rule { queue: "waiting", priority: 4, why: "a draft: its author is still at it", applies: is_draft },
    Rule { queue: "dependencies", priority: 3, why: "opened by a bot", applies: |subject| subject.by_bot },
    Rule { queue: "welcome", priority: 2, why: "a first contribution: answer soon", applies: |subject| subject.by_newcomer },
    Rule { queue: "review-quick", priority: 2, why: "a small change", applies: |subject| changes_at_most(subject, QUICK_LINES) },
    Rule { queue: "review", priority: 3, why: "a change", applies: |subject| changes_at_most(subject, LARGE_LINES) },
    Rule { queue: "review-large", priority: 3, why: "a large change: ask to split it", applies: is_pull_request },
    Rule { queue: "in-progress", priority: 3, why: "somebody is assigned", applies: |subject| subject.is_assigned },
    Rule { queue: "bugs", priority: 2, why: "a bug that nobody is assigned to", applies: |subject| has_label(subject, "bug") },
];

/// For an issue that no rule knows better.
const INBOX: Rule = Rule { queue: "inbox", priority: 3, why: "nobody has looked at it", applies: |_| true };

/// The rule that decides about `subject`.
pub(crate) fn route(subject: &Subject<'_>) -> &'static Rule {
    RULES.iter().find(|rule| (rule.applies)(subject)).unwrap_or(&INBOX)
}

fn is_about_security(subject: &Subject<'_>) -> bool {
    has_label(subject, "security") || SECURITY_WORDS.iter().any(|word| subject.text.contains(word))
}

fn is_draft(subject: &Subject<'_>) -> bool {
    matches!(subject.kind, Kind::PullRequest { is_draft: true, .. })
}

fn has_label(subject: &Subject<'_>, label: &str) -> bool {
    subject.labels.iter().any(|name| name == label)
}

fn is_pull_request(subject: &Subject<'_>) -> bool {
    matches!(subject.kind, Kind::PullRequest { .. })
}

/// Whether `subject` is a pull request with at most so many changed lines.
fn changes_at_most(subject: &Subject<'_>, lines: u64) -> bool {
    matches!(subject.kind, Kind::PullRequest { n_changed_lines, .. } if n_changed_lines <= lines)
}

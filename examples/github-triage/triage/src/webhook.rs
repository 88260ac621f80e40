//! The part of GitHub's webhooks that triage needs: <https://docs.github.com/webhooks/webhook-events-and-payloads>.
//!
//! GitHub leaves out fields more often than its documentation says, so everything that is not read by every rule is optional here.

use serde::Deserialize;

/// The payload of an `issues` or a `pull_request` webhook.
#[derive(Deserialize)]
pub(crate) struct Webhook {
    action: String,
    repository: Repository,
    issue: Option<Item>,
    pull_request: Option<Item>,
}

#[derive(Deserialize)]
struct Repository {
    full_name: String,
}

/// An issue or a pull request: they share most of their fields.
#[derive(Deserialize)]
struct Item {
    number: u64,
    title: String,
    html_url: String,
    state: Option<String>,
    body: Option<String>,
    user: Option<User>,
    assignee: Option<User>,
    #[serde(default)]
    labels: Option<Vec<Label>>,
    author_association: Option<String>,
    draft: Option<bool>,
    additions: Option<u64>,
    deletions: Option<u64>,
}

#[derive(Deserialize)]
struct User {
    r#type: Option<String>,
}

#[derive(Deserialize)]
struct Label {
    name: String,
}

/// What the rules look at.
pub(crate) struct Subject<'a> {
    pub(crate) repository: &'a str,
    pub(crate) number: u64,
    pub(crate) title: &'a str,
    pub(crate) url: &'a str,
    pub(crate) kind: Kind,
    /// False once it is closed, deleted or moved away.
    pub(crate) is_open: bool,
    pub(crate) is_assigned: bool,
    pub(crate) by_bot: bool,
    pub(crate) by_newcomer: bool,
    /// In lower case.
    pub(crate) labels: Vec<String>,
    /// Title and body, in lower case.
    pub(crate) text: String,
}

/// What only one of the two has.
pub(crate) enum Kind {
    Issue,
    PullRequest { is_draft: bool, n_changed_lines: u64 },
}

impl Webhook {
    /// The issue or pull request that this webhook of `topic` is about.
    ///
    /// # Errors
    /// If it cannot be triaged; the text says why.
    pub(crate) fn subject(&self, topic: &str) -> Result<Subject<'_>, String> {
        let is_pull_request = topic.starts_with("github.pull_request.");
        let (name, item) = if is_pull_request { ("pull_request", &self.pull_request) } else { ("issue", &self.issue) };
        let item = item.as_ref().ok_or_else(|| format!("expected `{name}` in a webhook of `{topic}`, got none"))?;
        let (repository, number) = (&self.repository.full_name, item.number);
        let state = item.state.as_deref().ok_or_else(|| format!("expected {repository}#{number} to be open or closed, got no `state`"))?;
        let kind = if is_pull_request {
            let n_changed_lines = item.additions.unwrap_or(0).saturating_add(item.deletions.unwrap_or(0));
            Kind::PullRequest { is_draft: item.draft.unwrap_or(false), n_changed_lines }
        } else {
            Kind::Issue
        };
        Ok(Subject {
            repository,
            number,
            title: &item.title,
            url: &item.html_url,
            kind,
            is_open: state == "open" && !matches!(self.action.as_str(), "deleted" | "transferred"),
            is_assigned: item.assignee.is_some(),
            by_bot: item.user.as_ref().is_some_and(|user| user.r#type.as_deref() == Some("Bot")),
            by_newcomer: matches!(item.author_association.as_deref(), Some("FIRST_TIMER" | "FIRST_TIME_CONTRIBUTOR")),
            labels: item.labels.iter().flatten().map(|label| label.name.to_lowercase()).collect(),
            text: format!("{}\n{}", item.title, item.body.as_deref().unwrap_or_default()).to_lowercase(),
        })
    }
}

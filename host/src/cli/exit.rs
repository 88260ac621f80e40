//! How a command ends: the exit codes, and failures told once on stderr.

use std::fmt;
use std::process::ExitCode;

use crate::config::Problem;
use crate::dispatch::StartError;
use crate::store::{ErrorKind, StoreError};

/// The exit codes. Part of the contract of scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    Done = 0,
    Failed = 1,
    Refused = 2,
    Partial = 3,
    Unavailable = 4,
}

/// The same as [`Exit`], as `--help` says it.
pub(super) const TABLE: &str = "\
Exit codes:
  0  done
  1  the operation failed
  2  refused at the start: wrong command line, configuration or component
  3  done in part: a line not accepted, a delivery not changed, a run abandoned
  4  the store could not be reached, or did not answer in time
  130, 143  a second SIGINT or SIGTERM during the stop";

/// What a process that signal number `signal` ended exits with, by custom.
pub(super) const fn after_signal(signal: i32) -> i32 {
    128 + signal
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a command did not do what it was told.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) exit: Exit,
    message: String,
    problems: Vec<String>,
    hint: Option<String>,
    /// Nobody reads our output any more: no reason to complain to anybody.
    is_broken_pipe: bool,
}

pub(super) type CommandResult = Result<Exit, Failure>;

impl Failure {
    fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), problems: Vec::new(), hint: None, is_broken_pipe: false }
    }

    pub(super) fn failed(message: impl Into<String>) -> Self {
        Self::new(Exit::Failed, message)
    }

    pub(super) fn refused(message: impl Into<String>) -> Self {
        Self::new(Exit::Refused, message)
    }

    /// Refused for each of `problems`.
    pub(super) fn problems(what: &str, problems: Vec<String>) -> Self {
        let n = problems.len();
        Self { problems, ..Self::refused(format!("{what}: {n} problem{}", if n == 1 { "" } else { "s" })) }
    }

    /// The configuration has `problems`.
    pub(super) fn configuration(problems: &[Problem]) -> Self {
        let failure = Self::problems("the configuration is refused", problems.iter().map(ToString::to_string).collect());
        failure.with_hint("relaybus.default.toml documents every key")
    }

    pub(super) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Tells it on stderr, and returns the code to exit with.
    pub(super) fn tell(&self) -> Exit {
        if self.is_broken_pipe {
            return Exit::Done;
        }
        eprintln!("{self}");
        self.exit
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.message)?;
        for problem in &self.problems {
            write!(f, "\n  {}", problem.replace('\n', "\n  "))?;
        }
        match &self.hint {
            Some(hint) => write!(f, "\n hint: {hint}"),
            None => Ok(()),
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let (exit, hint) = match error.kind {
            ErrorKind::Unavailable => (
                Exit::Unavailable,
                Some("the store must be there, and this user must be able to read and write it; `--store` or RELAYBUS_STORE names it"),
            ),
            ErrorKind::Timeout => (Exit::Unavailable, Some("`store.call_timeout` says how long a call may take")),
            ErrorKind::Misconfigured => (Exit::Refused, Some("`--store` or RELAYBUS_STORE names the store, such as `sqlite:relaybus.db`")),
            ErrorKind::LeaseLost | ErrorKind::Conflict | ErrorKind::NotFound | ErrorKind::Corrupt => (Exit::Failed, None),
        };
        Self { hint: hint.map(str::to_owned), ..Self::new(exit, chain(&error)) }
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        let handler = error.handler;
        let failure = Self::from(error.source);
        Self { message: format!("handler `{handler}` could not be subscribed: {}", failure.message), ..failure }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self { is_broken_pipe: error.kind() == std::io::ErrorKind::BrokenPipe, ..Self::failed(chain(&error)) }
    }
}

/// An error with its sources, in one line.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        // Some drivers' errors repeat their source.
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

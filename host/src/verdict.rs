//! How a run ended.
//!
//! The engine says it, `policy` decides what follows, the stores keep it. Nothing here does either.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::delivery::NewEvent;

/// Why the host stops a run that has not ended by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AbortReason {
    /// The run's time is over.
    Timeout,
    /// The worker no longer holds the delivery's lease, or cannot know that it does (R9).
    LeaseLost,
    /// The worker is stopping (R21).
    Shutdown,
}

impl AbortReason {
    pub const fn reason(self) -> Reason {
        match self {
            Self::Timeout => Reason::Timeout,
            Self::LeaseLost => Reason::LeaseLost,
            Self::Shutdown => Reason::Shutdown,
        }
    }
}

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// The named reason on a delivery's record. Closed; the texts are part of the command line's contract.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum Reason {
            $($(#[$doc])* #[serde(rename = $text)] $name,)*
        }

        impl Reason {
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

reasons! {
    /// The handler returned a failure.
    Failed = "failed",
    /// The handler returned `snooze`.
    Snoozed = "snoozed",
    /// The guest trapped.
    Trap = "trap",
    /// The guest panicked or threw; the message is its text.
    Panic = "panic",
    /// The run's time was over.
    Timeout = "timeout",
    /// The guest asked for more memory than its limit.
    MemoryLimit = "memory-limit",
    /// The guest asked for more table elements than its limit.
    TableLimit = "table-limit",
    /// The guest's calls were nested deeper than its stack.
    StackLimit = "stack-limit",
    /// The guest held more handles than its limit.
    HandleLimit = "handle-limit",
    /// The guest passed more data to one host call than its limit.
    HostCallLimit = "host-call-limit",
    /// The worker was stopping.
    Shutdown = "shutdown",
    /// The worker lost the lease during the run.
    LeaseLost = "lease-lost",
    /// A claim found the lease expired: the worker died or stalled.
    LeaseExpired = "lease-expired",
    /// The attempts were used up by expired leases.
    MaxAttempts = "max-attempts",
    /// Too many leases expired: what kills its host cannot loop for ever.
    MaxCrashes = "max-crashes",
    /// What the store holds of this delivery cannot be read.
    Malformed = "malformed",
    /// The host could not run the handler.
    HostFault = "host-fault",
    /// Somebody buried it by hand.
    Operator = "operator",
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::str::FromStr for Reason {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .iter()
            .copied()
            .find(|reason| reason.as_str() == text)
            .ok_or_else(|| format!("expected a reason such as `timeout`, got `{text}`"))
    }
}

/// What a handler wants to follow its failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextStep {
    Retry,
    RetryAfter(Duration),
    Snooze(Duration),
    Bury,
}

/// A failure that the handler returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub message: String,
    pub code: Option<String>,
    pub next: NextStep,
    pub extras: Vec<(String, String)>,
}

impl Failure {
    /// The message, with the code in front and the extras behind where there are any.
    pub fn describe(&self) -> String {
        let mut text = self.code.as_ref().map_or_else(String::new, |code| format!("{code}: "));
        text.push_str(&self.message);
        for (name, value) in &self.extras {
            text.push_str(&format!("\n{name}: {value}"));
        }
        text
    }
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The handler returned ok. Its events are stored with the completion (R16).
    Ok { events: Vec<NewEvent> },
    /// The handler returned a failure.
    Failed(Failure),
    /// The guest trapped, panicked, or ran into a limit; `reason` names which.
    Trapped { reason: Reason, message: String },
    /// The host stopped the run.
    Aborted(AbortReason),
    /// The host could not run the handler: nothing is the handler's fault.
    HostFault { message: String },
}

/// A run that has ended.
#[derive(Clone, Debug)]
pub struct RunReport {
    pub verdict: Verdict,
    /// The abort that the guest could already see when it ended by itself, if any.
    pub signalled: Option<AbortReason>,
    /// What the guest last wrote to its log, stdout and stderr, cut to the output limit.
    pub output: String,
    pub ran_for: Duration,
}

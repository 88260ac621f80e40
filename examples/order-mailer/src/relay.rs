//! Stands in for a mail relay, so that the example needs no network and ends the same way each time.
//!
//! What it answers depends on the recipient's domain and the attempt alone. A real one would be asked over HTTP.

use std::time::Duration;

use crate::mail::Mail;

/// What the relay says to a mail.
pub(crate) enum Answer {
    Accepted,
    /// It wants to be asked again, not before `wait`.
    Later {
        wait: Duration,
        text: String,
    },
    /// It cannot say when it will be back.
    Busy {
        text: String,
    },
}

/// Offers `mail` to the relay, for the `attempt`th time.
pub(crate) fn offer(mail: &Mail, attempt: u32) -> Answer {
    let domain = mail.to.rsplit('@').next().unwrap_or_default();
    match (domain, attempt) {
        ("greylist.example", 1) => Answer::Later { wait: Duration::from_secs(1), text: "450 greylisted, try again in a second".to_owned() },
        ("busy.example", 1 | 2) | ("down.example", _) => Answer::Busy { text: format!("421 the relay of {domain} is busy") },
        _ => Answer::Accepted,
    }
}

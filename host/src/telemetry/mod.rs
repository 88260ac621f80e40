//! What the host says of itself: log lines on stderr. Never on stdout, which belongs to the commands' answers.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::layer;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::{LogFormat, LogSettings};
use crate::store::DRIVER_LOG;

/// Who reads the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// A person who runs one command: only what is wrong, unless asked for more.
    Person,
    /// Whoever watches over a running host.
    Operator,
}

/// Variables that come before `log.level`, in this order.
const VARIABLES: [&str; 2] = ["RELAYBUS_LOG", "RUST_LOG"];

/// Starts logging. Does nothing if somebody else has done so in this process.
pub fn init(settings: &LogSettings, audience: Audience) {
    let from_environment = VARIABLES.iter().find_map(|name| std::env::var(name).ok().filter(|text| !text.is_empty()));
    let level = from_environment.as_deref().unwrap_or(match audience {
        Audience::Person => "warn",
        Audience::Operator => &settings.level,
    });
    // Wrong directives are passed over: a log that says less is no reason not to start.
    let filter = EnvFilter::builder().parse_lossy(format!("{DRIVER_LOG},{level}"));
    let registry = tracing_subscriber::registry().with(filter);
    let is_terminal = std::io::stderr().is_terminal();
    let started = match settings.format {
        LogFormat::Text => registry.with(layer().with_ansi(is_terminal).with_writer(std::io::stderr)).try_init(),
        LogFormat::Json => registry.with(layer().json().flatten_event(true).with_writer(std::io::stderr)).try_init(),
    };
    if started.is_err() {
        tracing::debug!("logging was started before");
    }
}

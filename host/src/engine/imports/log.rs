//! `relaybus:handler/log`: structured log lines, to the host's log and to the run's output.

use std::fmt::Write;

use super::relaybus::handler::log::{Host, Level};
use super::relaybus::handler::types::Entry;
use crate::engine::instance::RunState;

impl Host for RunState {
    fn log(&mut self, level: Level, message: String, fields: Vec<Entry>) -> wasmtime::Result<()> {
        self.look_at_the_clock()?;
        let Some(run) = &self.run else { return Ok(()) };
        let mut line = format!("{} {message}", name(level));
        for Entry { name, value } in &fields {
            // Writing to a String cannot fail.
            let _ = write!(line, " {name}={value}");
        }
        self.output.write_line(&line);
        let (handler, delivery) = (run.handler.as_str(), run.delivery.id);
        let fields = &line[name(level).len() + 1 + message.len()..].trim_start();
        macro_rules! pass_on {
            ($level:ident) => {
                tracing::event!(target: "relaybus::guest", tracing::Level::$level, handler, %delivery, fields, "{message}")
            };
        }
        match level {
            Level::Trace => pass_on!(TRACE),
            Level::Debug => pass_on!(DEBUG),
            Level::Info => pass_on!(INFO),
            Level::Warn => pass_on!(WARN),
            Level::Error => pass_on!(ERROR),
        }
        Ok(())
    }
}

const fn name(level: Level) -> &'static str {
    match level {
        Level::Trace => "TRACE",
        Level::Debug => "DEBUG",
        Level::Info => "INFO",
        Level::Warn => "WARN",
        Level::Error => "ERROR",
    }
}

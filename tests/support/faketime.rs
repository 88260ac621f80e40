//! Hosts whose clock is wrong, by `libfaketime`. The time since boot, by which a worker measures its own deadlines, stays right: that is what a
//! machine looks like whose clock was set wrong.

use std::path::PathBuf;
use std::process::Command;

use chrono::{DateTime, TimeDelta, Utc};

/// How wrong a clock is, in either direction.
pub const SKEW: TimeDelta = TimeDelta::minutes(10);

/// The direction in which a clock is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    Ahead,
    Behind,
}

impl Clock {
    pub const BOTH: [Self; 2] = [Self::Ahead, Self::Behind];

    /// Sets the clock of the process that `command` will start.
    ///
    /// # Panics
    /// If the library is not installed.
    pub fn of(self, command: &mut Command) -> &mut Command {
        let offset = match self {
            Self::Ahead => "+10m",
            Self::Behind => "-10m",
        };
        command.env("LD_PRELOAD", library()).env("FAKETIME", offset).env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
    }

    /// Whether `told` is the time of a process with such a clock, give or take what a busy machine needs to say it.
    pub fn is_of(self, told: DateTime<Utc>) -> bool {
        let ahead = told - Utc::now();
        let off = match self {
            Self::Ahead => ahead - SKEW,
            Self::Behind => ahead + SKEW,
        };
        off.abs() < SKEW / 2
    }
}

/// Where Debian keeps the library, whatever the processor.
fn library() -> PathBuf {
    let folders = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten().map(|entry| entry.path());
    let mut candidates = folders.map(|folder| folder.join("faketime/libfaketimeMT.so.1"));
    candidates.find(|path| path.exists()).expect("libfaketime is installed: `apt-get install faketime`, or run `tests/run.sh`")
}

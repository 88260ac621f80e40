//! Notices that the write-ahead log may have grown, for little.
//!
//! A hint and no more: whether another process has committed is for SQLite to say.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

/// How long a file's time of change may stand still while the file changes: some ticks of the kernel.
const TIME_GRAIN: Duration = Duration::from_millis(20);
/// Say yes this often whatever the file's times are: not every file system keeps them.
const CERTAIN_INTERVAL: Duration = Duration::from_millis(250);

pub(super) struct LogWatch {
    path: PathBuf,
    last: Option<(SystemTime, u64)>,
    last_yes_at: Instant,
}

impl LogWatch {
    /// Watches the log of the database at `path`.
    pub(super) fn new(path: &Path) -> Self {
        let mut log = path.as_os_str().to_owned();
        log.push("-wal");
        Self { path: log.into(), last: None, last_yes_at: Instant::now() }
    }

    /// One `stat`, which a file system answers from memory: it is not worth a thread.
    pub(super) fn may_have_grown(&mut self) -> bool {
        let now = std::fs::metadata(&self.path).ok().and_then(|log| Some((log.modified().ok()?, log.len())));
        let is_fresh = now.is_some_and(|(changed_at, _)| changed_at.elapsed().is_ok_and(|age| age < TIME_GRAIN));
        let may_have_grown = is_fresh || now != self.last || self.last_yes_at.elapsed() >= CERTAIN_INTERVAL;
        self.last = now;
        if may_have_grown {
            self.last_yes_at = Instant::now();
        }
        may_have_grown
    }
}

//! What one run may use, and the limiter that remembers what it refused.

use wasmtime::ResourceLimiter;

/// What one run may use. Each limit is reported by its name when a run hits it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Linear memory, in bytes, all memories of the run together. The host holds at most as much again for the run: its events.
    pub memory_bytes: u64,
    /// Elements of each table.
    pub table_elements: u32,
    /// Data that one host call may take from the guest, in bytes.
    pub host_call_bytes: u64,
    /// Resource handles at a time.
    pub handles: u32,
    /// Log lines, stdout and stderr that are kept, in bytes: the last ones.
    pub output_bytes: usize,
    /// Events that the run may publish.
    pub published_events: u32,
    /// Payload of one of them, in bytes.
    pub payload_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_bytes: 128 * 1024 * 1024,
            table_elements: 100_000,
            host_call_bytes: 16 * 1024 * 1024,
            handles: 1_000,
            output_bytes: 64 * 1024,
            published_events: 1_000,
            payload_bytes: 1024 * 1024,
        }
    }
}

/// A limit that a run has hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    Memory {
        desired: usize,
    },
    Table {
        desired: usize,
    },
    /// What the host holds for the run.
    Held {
        desired: usize,
    },
}

/// Holds a run to its memory and tables. A refusal reaches the guest as a failed allocation, which it turns into any kind of trap: so the
/// limiter remembers it.
pub(super) struct Limiter {
    memory_bytes: usize,
    table_elements: usize,
    used_bytes: usize,
    held_bytes: usize,
    pub(super) refused: Option<Refused>,
}

impl Limiter {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            memory_bytes: usize::try_from(limits.memory_bytes).unwrap_or(usize::MAX),
            table_elements: limits.table_elements as usize,
            used_bytes: 0,
            held_bytes: 0,
            refused: None,
        }
    }

    /// The host now holds `n_after` bytes of something for the run, where it held `n_before`.
    ///
    /// # Errors
    /// If that is too much: the run ends by it.
    pub(super) fn hold(&mut self, n_before: usize, n_after: usize) -> wasmtime::Result<()> {
        self.held_bytes = self.held_bytes.saturating_sub(n_before).saturating_add(n_after);
        if self.held_bytes > self.memory_bytes {
            self.refused = Some(Refused::Held { desired: self.held_bytes });
            return Err(wasmtime::Error::msg("the run's events are larger than `memory` allows"));
        }
        Ok(())
    }
}

impl ResourceLimiter for Limiter {
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        let used_bytes = self.used_bytes.saturating_add(desired.saturating_sub(current));
        if used_bytes > self.memory_bytes {
            self.refused = Some(Refused::Memory { desired: used_bytes });
            return Ok(false);
        }
        if maximum.is_some_and(|maximum| desired > maximum) {
            // The memory's own type forbids it: nothing is used, and no limit of ours was hit.
            return Ok(false);
        }
        self.used_bytes = used_bytes;
        Ok(true)
    }

    fn table_growing(&mut self, _current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        if desired > self.table_elements {
            self.refused = Some(Refused::Table { desired });
            return Ok(false);
        }
        Ok(true)
    }
}

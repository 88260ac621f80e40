//! Finds the text of a panic in what a guest writes to stderr, whatever else it writes there and however long the text is.

/// How the text of every Rust panic begins, after the name of its thread.
const MARK: &[u8] = b"panicked at ";
/// Kept of the text, from its beginning: that is where the place and the message are.
const MAX_BYTES: usize = 8 * 1024;

/// The last panic that was written.
#[derive(Default)]
pub(super) struct PanicText {
    /// From the mark on.
    text: Vec<u8>,
    /// The last bytes before now: one write may end, and the next one begin, within a mark.
    recent: Vec<u8>,
}

impl PanicText {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.recent.extend(bytes);
        let mark = self.recent.windows(MARK.len()).rposition(|window| window == MARK);
        let more = match mark {
            Some(start) => {
                self.text.clear();
                &self.recent[start..]
            }
            None if self.text.is_empty() => &[],
            None => bytes,
        };
        self.text.extend(&more[..more.len().min(MAX_BYTES - self.text.len())]);
        let n_old = self.recent.len().saturating_sub(MARK.len() - 1);
        self.recent.drain(..n_old);
    }

    /// The text, without Rust's advice about backtraces.
    pub(super) fn text(&self) -> Option<String> {
        let text = String::from_utf8_lossy(&self.text);
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("note: ")).collect();
        (!lines.is_empty()).then(|| lines.join("\n").trim_end().to_owned())
    }
}

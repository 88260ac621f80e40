//! What a guest writes: its log lines, stdout and stderr, in the order in which they came; the last of them are kept.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::io::AsyncWrite;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};

use super::panic_text::PanicText;

/// What a guest may write in one go. It may write as often as it likes.
const WRITE_BYTES: usize = 64 * 1024;

/// The output of one run. Cheap to clone; the guest's streams write, the run's end reads.
#[derive(Clone)]
pub(super) struct Output {
    kept: Arc<Mutex<Kept>>,
}

struct Kept {
    all: Tail,
    /// Looked for in stderr, and kept whatever the output limit is.
    panic: PanicText,
}

/// The last bytes of a stream.
struct Tail {
    bytes: VecDeque<u8>,
    limit: usize,
}

/// One of the guest's two standard streams.
#[derive(Clone)]
pub(super) struct Stream {
    output: Output,
    is_stderr: bool,
}

impl Output {
    pub(super) fn new(limit: usize) -> Self {
        let all = Tail { bytes: VecDeque::new(), limit };
        Self { kept: Arc::new(Mutex::new(Kept { all, panic: PanicText::default() })) }
    }

    pub(super) fn stdout(&self) -> Stream {
        Stream { output: self.clone(), is_stderr: false }
    }

    pub(super) fn stderr(&self) -> Stream {
        Stream { output: self.clone(), is_stderr: true }
    }

    pub(super) fn write_line(&self, line: &str) {
        let mut kept = self.lock();
        kept.all.push(line.as_bytes());
        kept.all.push(b"\n");
    }

    /// The text that is kept; what is no UTF-8 is replaced.
    pub(super) fn text(&self) -> String {
        self.lock().all.text()
    }

    /// The text of the last panic on stderr.
    pub(super) fn panic_text(&self) -> Option<String> {
        self.lock().panic.text()
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tail {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend(&bytes[bytes.len().saturating_sub(self.limit)..]);
        let n_over = self.bytes.len().saturating_sub(self.limit);
        self.bytes.drain(..n_over);
    }

    fn text(&self) -> String {
        // A cut character at the front is dropped, not shown as a replacement.
        let bytes: Vec<u8> = self.bytes.iter().copied().skip_while(|byte| byte & 0b1100_0000 == 0b1000_0000).collect();
        let text = String::from_utf8_lossy(&bytes);
        // A replacement is longer than the byte that it stands for.
        text[text.ceil_char_boundary(text.len().saturating_sub(self.limit))..].to_owned()
    }
}

impl Stream {
    fn push(&self, bytes: &[u8]) {
        let mut kept = self.output.lock();
        kept.all.push(bytes);
        if self.is_stderr {
            kept.panic.push(bytes);
        }
    }
}

impl IsTerminal for Stream {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Stream {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(self.clone())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

impl OutputStream for Stream {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.push(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(WRITE_BYTES)
    }
}

#[async_trait::async_trait]
impl Pollable for Stream {
    async fn ready(&mut self) {}
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.push(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

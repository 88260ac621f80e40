//! Names what a file is, where it is no component or none that can be compiled here.

use wasmparser::{Validator, WasmFeatures};

use super::options::{MAX_CORE_INSTANCES, MAX_MEMORIES, MAX_TABLES};
use super::problem::Problem;

/// Whether it is a component, by its first bytes.
pub(super) fn check(bytes: &[u8]) -> Result<(), Problem> {
    const MAGIC: &[u8] = b"\0asm";
    const CORE_VERSION: &[u8] = &[1, 0, 0, 0];
    if bytes.is_empty() {
        return Err(Problem::new("is empty, expected a WebAssembly component").with_hint("was it still being written?"));
    }
    if !bytes.starts_with(MAGIC) {
        // The first bytes may end within a character.
        let is_text = std::str::from_utf8(&bytes[..bytes.len().min(512)]).map_or_else(|error| error.error_len().is_none(), |_| true);
        let what = if is_text { "is text" } else { "is no WebAssembly" };
        return Err(Problem::new(format!("{what}, expected a WebAssembly component"))
            .with_hint("give the built `.wasm` file, such as target/wasm32-wasip2/release/NAME.wasm"));
    }
    if bytes[MAGIC.len()..].starts_with(CORE_VERSION) {
        return Err(Problem::new("is a core WebAssembly module, expected a component")
            .with_hint("build it for the target `wasm32-wasip2`, or wrap it with `wasm-tools component new`"));
    }
    Ok(())
}

/// Why wasmtime did not compile it.
pub(super) fn problem(bytes: &[u8], error: &wasmtime::Error) -> Problem {
    let text = format!("{error:#}");
    // wasmtime has no public type for these; tests hold the texts.
    if text.contains("pooling allocator") {
        return Problem::new(format!("needs more than a sandbox has: {text}")).with_hint(format!(
            "a component may have {MAX_CORE_INSTANCES} core instances, {MAX_MEMORIES} memories and {MAX_TABLES} tables"
        ));
    }
    if Validator::new_with_features(WasmFeatures::all()).validate_all(bytes).is_ok() {
        return Problem::new(format!("uses a feature of WebAssembly that is not enabled here: {text}")).with_hint(
            "build it for the target `wasm32-wasip2`, without threads, exceptions, garbage collection, 64-bit memory or async types",
        );
    }
    Problem::new(format!("is no valid component, it may be truncated or damaged: {text}")).with_hint("build or copy it again")
}

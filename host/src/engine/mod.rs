//! The only door to wasm.

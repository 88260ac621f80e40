//! The components that the tests run, built by this package's build script.

use std::path::PathBuf;

/// The component of the guest or example with this name.
///
/// # Panics
/// If there is none: the name is wrong, or the guest has no `[[example]]` entry.
pub fn component(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("RELAYBUS_GUESTS"));
    // A library's file has underscores, an example's keeps its name.
    let found = [format!("{name}.wasm"), format!("{}.wasm", name.replace('-', "_"))].map(|file| folder.join(file));
    found.into_iter().find(|path| path.exists()).unwrap_or_else(|| panic!("expected a guest `{name}` in {}", folder.display()))
}

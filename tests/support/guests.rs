//! The components that the tests run, built by this package's build script.

use std::path::PathBuf;

/// The component of the guest or example with this name.
///
/// # Panics
/// If there is none: the name is wrong, or the guest has no `[[example]]` entry.
pub fn component(name: &str) -> PathBuf {
    let file = name.replace('-', "_") + ".wasm";
    let release = PathBuf::from(env!("RELAYBUS_GUESTS"));
    let found = [release.join("examples").join(&file), release.join(&file), release.join("examples").join(format!("{name}.wasm"))]
        .into_iter()
        .find(|path| path.exists());
    found.unwrap_or_else(|| panic!("expected a guest `{name}` in {}", release.display()))
}

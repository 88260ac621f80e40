//! Builds the guests and the examples' handlers as components, into a target folder of their own beside this package's.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    // As it is when this runs: checkouts that share a target folder share this program as well.
    let package = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"));
    let root = package.parent().expect("the tests package lies in the workspace");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let target = out.ancestors().nth(4).expect("OUT_DIR lies in a target folder").join("guests");
    for folder in ["sdk/rust", "wit", "examples", "tests/guests"] {
        println!("cargo:rerun-if-changed={}", root.join(folder).display());
    }
    let cargo = std::env::var_os("CARGO").expect("cargo sets CARGO");
    let status = Command::new(cargo)
        .current_dir(root)
        .args(["build", "--release", "--locked", "--target", "wasm32-wasip2", "--lib", "--examples", "--package", "relaybus-guests"])
        .args(example_packages(root).iter().flat_map(|name| ["--package".to_owned(), name.clone()]))
        .env("CARGO_TARGET_DIR", &target)
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .status()
        .expect("cargo runs");
    assert!(status.success(), "the guests did not build; is the target there? `rustup target add wasm32-wasip2`");
    println!("cargo:rustc-env=RELAYBUS_GUESTS={}", keep(&target.join("wasm32-wasip2/release"), &out.join("components")).display());
}

/// Copies the components to a folder of this checkout's own: in a target folder that checkouts share, the last one to build wins.
fn keep(built: &Path, kept: &Path) -> PathBuf {
    std::fs::create_dir_all(kept).expect("OUT_DIR can be written");
    for folder in [built.to_owned(), built.join("examples")] {
        let files = std::fs::read_dir(&folder).expect("the build made the folder").flatten().map(|entry| entry.path());
        for file in files.filter(|file| file.extension().is_some_and(|ending| ending == "wasm")) {
            let name = file.file_name().expect("a file has a name");
            std::fs::copy(&file, kept.join(name)).expect("a component can be copied");
        }
    }
    kept.to_owned()
}

/// Every crate below `examples/` is a handler.
fn example_packages(root: &Path) -> Vec<String> {
    let folders = std::fs::read_dir(root.join("examples")).into_iter().flatten().flatten();
    let crates = folders.flat_map(|folder| {
        let nested = std::fs::read_dir(folder.path()).into_iter().flatten().flatten().map(|entry| entry.path());
        std::iter::once(folder.path()).chain(nested).collect::<Vec<_>>()
    });
    crates.filter(|folder| folder.join("Cargo.toml").exists()).filter_map(|folder| Some(folder.file_name()?.to_str()?.to_owned())).collect()
}

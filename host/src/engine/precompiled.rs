//! The compile cache: compiled components in a folder that only this user may write.
//!
//! A compiled component is native code, and loading one runs it. So each entry is named by the component's digest and the engine's settings,
//! carries a digest of its own, and is only taken from a folder that nobody else can write to.
#![allow(unsafe_code)]

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use wasmtime::component::Component;

const DIGEST_BYTES: usize = 32;
const OTHERS_MAY_WRITE: u32 = 0o022;

/// The compiled form of the component with this digest, if the cache has it whole.
pub(super) fn load(wasm: &wasmtime::Engine, folder: &Path, digest: &str) -> Option<Component> {
    let path = entry(wasm, folder, digest);
    let bytes = fs::read(&path).ok()?;
    if let Err(error) = check_folder(folder) {
        tracing::warn!(folder = %folder.display(), %error, "compile cache is not used");
        return None;
    }
    let is_whole = |(expected, code): &(&[u8], &[u8])| *expected == Sha256::digest(code).as_slice();
    let Some((_, code)) = bytes.split_at_checked(DIGEST_BYTES).filter(is_whole) else {
        tracing::warn!(path = %path.display(), "compiled component is damaged, it will be compiled again");
        return None;
    };
    // SAFETY: the bytes are what `store` wrote, by their digest, in a folder that only this user (or root) can write to; wasmtime itself
    // checks that its version and settings are the same.
    match unsafe { Component::deserialize(wasm, code) } {
        Ok(component) => Some(component),
        Err(error) => {
            tracing::warn!(path = %path.display(), error = format!("{error:#}"), "compiled component cannot be used, it will be compiled again");
            None
        }
    }
}

/// Keeps a compiled component. A cache that cannot be written costs time at the next start, nothing else.
pub(super) fn store(wasm: &wasmtime::Engine, folder: &Path, digest: &str, component: &Component) {
    let written =
        component.serialize().map_err(|error| io::Error::other(format!("{error:#}"))).and_then(|code| write(wasm, folder, digest, &code));
    if let Err(error) = written {
        tracing::warn!(folder = %folder.display(), %error, "compiled component is not kept");
    }
}

fn write(wasm: &wasmtime::Engine, folder: &Path, digest: &str, code: &[u8]) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    check_folder(folder)?;
    let path = entry(wasm, folder, digest);
    // Two hosts may compile the same component at once: each writes a file of its own, and the last rename wins.
    let temporary = path.with_extension(format!("{}.part", uuid::Uuid::new_v4().simple()));
    let mut file = fs::File::create_new(&temporary)?;
    let written = file.write_all(&Sha256::digest(code)).and_then(|()| file.write_all(code));
    let renamed = written.and_then(|()| fs::rename(&temporary, &path));
    if renamed.is_err() {
        // What is left of it is only in the way.
        let _ = fs::remove_file(&temporary);
    }
    renamed
}

fn entry(wasm: &wasmtime::Engine, folder: &Path, digest: &str) -> PathBuf {
    let mut settings = DefaultHasher::new();
    wasm.precompile_compatibility_hash().hash(&mut settings);
    folder.join(format!("{digest}-{:016x}.compiled", settings.finish()))
}

fn check_folder(folder: &Path) -> io::Result<()> {
    let metadata = fs::metadata(folder)?;
    if metadata.permissions().mode() & OTHERS_MAY_WRITE != 0 {
        return Err(io::Error::other("others may write to it; expected mode 0700"));
    }
    let user = rustix::process::geteuid().as_raw();
    if metadata.uid() != user && metadata.uid() != 0 {
        return Err(io::Error::other(format!("it belongs to user {}, expected {user}", metadata.uid())));
    }
    Ok(())
}

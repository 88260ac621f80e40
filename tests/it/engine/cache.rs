//! The compile cache: quick at the second start, and never a way to run what somebody else has written.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use relaybus_host::engine::{Component, EngineOptions};
use relaybus_host::verdict::Verdict;
use relaybus_tests::sandbox::{delivery, engine, load, run_of};

/// As a host that starts: an engine of its own.
async fn start(cache: &Path) -> Component {
    let engine = engine(EngineOptions { max_instances: 4, cache: Some(cache.to_owned()), ..EngineOptions::default() });
    let component = load(&engine, "noop").await;
    let report = component.run(run_of(delivery("null"))).await;
    assert!(matches!(report.verdict, Verdict::Ok { .. }), "{report:?}");
    component
}

fn entries(cache: &Path) -> Vec<PathBuf> {
    fs::read_dir(cache).expect("a folder").map(|entry| entry.expect("an entry").path()).collect()
}

#[tokio::test]
async fn a_second_start_takes_the_component_from_the_cache() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("below/cache");
    assert!(!start(&cache).await.was_cached());
    let again = start(&cache).await;
    assert!(again.was_cached());
    assert!(again.compiled_in() < Duration::from_secs(1), "took {:?}", again.compiled_in());
    assert_eq!(fs::metadata(&cache).unwrap().permissions().mode() & 0o777, 0o700);
}

#[tokio::test]
async fn a_damaged_entry_is_compiled_again() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    start(&cache).await;
    let [entry] = entries(&cache).try_into().expect("one entry");
    let whole = fs::read(&entry).unwrap();
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    for damaged in [&flipped[..], &whole[..whole.len() / 2], &whole[..8], &[]] {
        fs::write(&entry, damaged).unwrap();
        assert!(!start(&cache).await.was_cached());
        assert!(start(&cache).await.was_cached(), "it was written anew");
    }
    assert_eq!(entries(&cache), [entry]);
}

#[tokio::test]
async fn a_folder_that_others_may_write_to_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    start(&cache).await;
    fs::set_permissions(&cache, Permissions::from_mode(0o770)).unwrap();
    assert!(!start(&cache).await.was_cached());

    let open = folder.path().join("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, Permissions::from_mode(0o777)).unwrap();
    assert!(!start(&open).await.was_cached());
    assert_eq!(entries(&open), [] as [PathBuf; 0]);
}

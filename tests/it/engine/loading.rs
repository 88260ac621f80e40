//! Files that are no handler are refused with everything that is wrong with them, and what to do.

use relaybus_host::engine::{LoadError, Problem};
use relaybus_tests::sandbox::{engine, guest};
use relaybus_tests::{guests, sandbox};

async fn refused(bytes: impl AsRef<[u8]>) -> LoadError {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("handler.wasm");
    std::fs::write(&path, bytes).expect("a file");
    let engine = engine(relaybus_host::engine::EngineOptions { max_instances: 4, cache: None, ..sandbox::options() });
    let error = engine.load(&path).await.err().expect("a refusal");
    assert_eq!(error.path, path);
    error
}

async fn refused_text(component: &str) -> LoadError {
    refused(wat::parse_str(component).expect("a component")).await
}

fn assert_only(error: &LoadError, message: &str, hint: &str) {
    let [problem] = error.problems.as_slice() else { panic!("expected one problem, got {error}") };
    assert_says(problem, message, hint);
}

fn assert_says(problem: &Problem, message: &str, hint: &str) {
    assert!(problem.message.contains(message), "expected `{message}`, got: {problem}");
    assert!(problem.hint.as_ref().is_some_and(|found| found.contains(hint)), "expected the hint `{hint}`, got: {problem}");
}

#[tokio::test]
async fn a_good_component_says_what_it_is() {
    let component = guest("noop").await;
    assert_eq!(component.descriptor().name, "noop");
    assert_eq!(component.descriptor().topics, ["noop.>"]);
    assert!(component.exports().iter().any(|name| name == "relaybus:handler/handler@0.1.0"), "{:?}", component.exports());
    assert_eq!(component.digest().len(), 64);
    assert_eq!(component.n_bytes() as u64, std::fs::metadata(component.path()).unwrap().len());
}

#[tokio::test]
async fn a_file_that_is_missing_is_named() {
    let engine = engine(sandbox::options());
    let error = engine.load("no/such.wasm".as_ref()).await.err().unwrap();
    assert!(error.to_string().starts_with("no/such.wasm: cannot be read"), "{error}");
}

#[tokio::test]
async fn an_empty_file_is_told_from_a_damaged_one() {
    assert_only(&refused("").await, "is empty", "still being written");
}

#[tokio::test]
async fn text_is_called_text() {
    assert_only(&refused("a handler, honestly\n").await, "is text", ".wasm");
    assert_only(&refused("(component)").await, "is text", ".wasm");
}

#[tokio::test]
async fn other_bytes_are_no_webassembly() {
    assert_only(&refused([0x7f, b'E', b'L', b'F', 0xff]).await, "is no WebAssembly", ".wasm");
}

#[tokio::test]
async fn a_core_module_is_told_what_to_become() {
    assert_only(&refused(b"\0asm\x01\0\0\0").await, "is a core WebAssembly module", "wasm32-wasip2");
}

#[tokio::test]
async fn a_truncated_component_is_called_so() {
    let whole = std::fs::read(guests::component("noop")).unwrap();
    for n_bytes in [8, 9, 100, whole.len() / 2, whole.len() - 1] {
        let error = refused(&whole[..n_bytes]).await;
        if n_bytes == 8 {
            // A header alone is a component of nothing.
            assert_eq!(error.problems.len(), 2, "{error}");
        } else {
            assert_only(&error, "truncated or damaged", "build or copy it again");
        }
    }
}

#[tokio::test]
async fn all_that_is_unknown_or_missing_is_listed_at_once() {
    let component = r#"(component
        (import "acme:thing/x@1.0.0" (instance))
        (import "wasi:http/types@0.2.0" (instance))
        (import "wasi:io/streams@0.3.0" (instance))
        (import "relaybus:handler/sql@0.1.0" (instance))
        (import "relaybus:handler/context@0.2.0" (instance)))"#;
    let error = refused_text(component).await;
    let told = error.to_string();
    assert_eq!(error.problems.len(), 7, "{told}");
    assert_says(&error.problems[0], "imports `acme:thing/x@1.0.0`, which is not known here", "compose it");
    assert_says(&error.problems[1], "imports `wasi:http/types@0.2.0`", "of WASI a handler may use");
    assert_says(&error.problems[2], "imports `wasi:io/streams@0.3.0`, this host offers WASI 0.2", "wasm32-wasip2");
    assert!(error.problems[3].message.contains("`relaybus:handler/sql@0.1.0`, which this host does not offer"), "{told}");
    assert_says(&error.problems[4], "imports `relaybus:handler/context@0.2.0`, this host offers version 0.1.0", "rebuild");
    assert_says(&error.problems[5], "does not export `relaybus:handler/describe@0.1.0`", "event-handler");
    assert_says(&error.problems[6], "does not export `relaybus:handler/handler@0.1.0`", "event-handler");
}

#[tokio::test]
async fn an_export_of_another_version_is_named_with_ours() {
    let component = r#"(component (instance $empty)
        (export "relaybus:handler/describe@0.2.0" (instance $empty))
        (export "relaybus:handler/handler@0.2.0" (instance $empty)))"#;
    let error = refused_text(component).await;
    assert_eq!(error.problems.len(), 2, "{error}");
    for (problem, interface) in error.problems.iter().zip(["describe", "handler"]) {
        assert_says(problem, &format!("exports `relaybus:handler/{interface}@0.2.0`"), "rebuild");
    }
}

#[tokio::test]
async fn every_import_and_export_of_another_type_is_named() {
    let component = r#"(component
        (import "relaybus:handler/context@0.1.0" (instance
            (export "aborted" (func (param "x" string) (result bool)))
            (export "remaining-ms" (func (result u32)))
            (export "sleep-ms" (func (param "duration" u64) (result bool)))))
        (instance $empty)
        (export "relaybus:handler/describe@0.1.0" (instance $empty))
        (export "relaybus:handler/handler@0.1.0" (instance $empty)))"#;
    let error = refused_text(component).await;
    for problem in &error.problems {
        assert_says(problem, "does not fit the contract", "rebuild");
    }
    let names = |name: &str| error.problems.iter().filter(|problem| problem.message.contains(name)).count();
    assert_eq!((names("`aborted`"), names("`sleep-ms`"), names("`remaining-ms`")), (1, 1, 0), "{error}");
    assert_eq!((names("`describe`"), names("`handle`")), (1, 1), "{error}");
    assert_eq!(error.problems.len(), 4, "{error}");
}

#[tokio::test]
async fn an_export_of_another_type_is_refused() {
    let component = r#"(component (instance $empty)
        (export "relaybus:handler/describe@0.1.0" (instance $empty))
        (export "relaybus:handler/handler@0.1.0" (instance $empty)))"#;
    let error = refused_text(component).await;
    assert_eq!(error.problems.len(), 2, "{error}");
    for problem in &error.problems {
        assert_says(problem, "does not fit the contract", "rebuild");
    }
}

#[tokio::test]
async fn what_fits_is_not_named_beside_what_does_not() {
    // As guests do, it imports WASI of an older version than ours, and a later version of our track.
    let component = r#"(component
        (import "wasi:io/poll@0.2.0" (instance (export "pollable" (type (sub resource)))))
        (import "relaybus:handler/context@0.1.7" (instance
            (export "aborted" (func (param "x" string) (result bool)))
            (export "sleep-ms" (func (param "duration" f64) (result bool)))
            (export "brand-new" (func (result bool)))))
        (instance $empty)
        (export "relaybus:handler/describe@0.1.0" (instance $empty))
        (export "relaybus:handler/handler@0.1.0" (instance $empty)))"#;
    let error = refused_text(component).await;
    assert_eq!(error.problems.len(), 4, "{error}");
    for (problem, name) in error.problems.iter().zip(["`aborted`", "`brand-new`", "`describe`", "`handle`"]) {
        assert_says(problem, name, "rebuild");
    }
}

#[tokio::test]
async fn text_that_is_cut_within_a_character_is_still_text() {
    assert_only(&refused(format!("x{}", "ä".repeat(600))).await, "is text", ".wasm");
}

#[tokio::test]
async fn a_component_that_needs_more_than_a_sandbox_has_is_told_the_limits() {
    let with = |module: &str, n_instances: usize| {
        format!("(component (core module $m {module}) {})", "(core instance (instantiate $m))".repeat(n_instances))
    };
    for (component, told) in [
        (with("", 65), "65 core module instances"),
        (with(&"(memory 1)".repeat(9), 1), "memories"),
        (with(&"(table 1 funcref)".repeat(17), 1), "tables"),
        (with("(memory 1)", 9), "linear memories"),
        (with("(table 20000000 funcref)", 1), "20000000"),
    ] {
        let error = refused_text(&component).await;
        assert_only(&error, "needs more than a sandbox has", "64 core instances, 8 memories and 16 tables");
        assert!(error.to_string().contains(told), "expected {told}, got {error}");
    }
}

#[tokio::test]
async fn a_feature_that_is_not_enabled_is_told_from_damage() {
    let with = |module: &str| format!("(component (core module $m {module}))");
    for (component, told) in [
        (with("(memory i64 1)"), "memory64"),
        (with("(memory 1 1 shared)"), "threads"),
        (with("(tag)"), "exceptions"),
        (with("(type (struct (field i32)))"), "gc"),
        (r#"(component (import "f" (func async (result u32))))"#.to_owned(), "async"),
    ] {
        let error = refused_text(&component).await;
        assert_only(&error, "uses a feature of WebAssembly that is not enabled here", "wasm32-wasip2");
        assert!(error.to_string().contains(told), "expected {told}, got {error}");
    }
}

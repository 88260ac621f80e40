//! What holds for every command: help, refusals, settings, and where the store comes from.

use relaybus_tests::host::{Ended, command, run, run_with_input};

use super::{folder_with_handler, ok};

#[test]
fn help_and_the_readme_have_the_same_exit_codes() {
    let folder = tempfile::tempdir().unwrap();
    let help = ok(run(folder.path(), &["--help"])).stdout;
    let (_, table) = help.split_once("\nExit codes:\n").expect("a table");
    let rows: Vec<_> = table.lines().map(|line| line.trim().split_once("  ").expect("a code and its meaning")).collect();
    assert_eq!(rows.iter().map(|(code, _)| *code).collect::<Vec<_>>(), ["0", "1", "2", "3", "4", "130, 143"]);
    let readme = std::fs::read_to_string(relaybus_tests::root().join("README.md")).unwrap();
    for (code, meaning) in rows {
        assert!(readme.contains(&format!("\n| {code} | {meaning} |\n")), "`{code}` in README.md");
    }
}

#[test]
fn a_wrong_command_line_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in [
        &["publish"][..],
        &["publish", "order.created"],
        &["publish", "order..created", "--data", "{}"],
        &["publish", "order.created", "--data", "{}", "--file", "x"],
        &["publish", "order.created", "--data", "{}", "--delay", "soon"],
        &["publish", "order.created", "--data", "{}", "--header", "novalue"],
        &["publish", "order.created", "--data", "{}", "--tenant", "a b"],
        &["publish", "--ndjson", "-", "--key", "k"],
        &["deliveries", "show", "not-an-id"],
        &["deliveries", "redrive"],
        &["deliveries", "redrive", "--all", "--status", "completed"],
        &["deliveries", "bury", "0197f0a0-0000-8000-8000-000000000000", "--handler", "invoice"],
        &["deliveries", "list", "--limit", "0"],
        &["no-such-command"],
    ] {
        let ended = run(folder.path(), arguments);
        assert_eq!(ended.code, Some(2), "{arguments:?}: {ended:?}");
        assert_eq!(ended.stdout, "", "{arguments:?}");
        assert!(ended.stderr.starts_with("error: "), "{arguments:?}: {ended:?}");
    }
    assert!(!folder.path().join("relaybus.db").exists(), "a refused command touched the store");
}

#[test]
fn a_wrong_configuration_is_refused_with_every_problem() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("relaybus.toml"), "[dispatcher]\npoll_intervall = \"1s\"\nlease_duration = \"soon\"\n").unwrap();
    let ended = run(folder.path(), &["migrate"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""));
    assert_eq!(
        ended.stderr,
        "error: the configuration is refused: 2 problems\n  \
         relaybus.toml:2: `dispatcher.poll_intervall`: unknown key; the nearest is `poll_interval`\n  \
         relaybus.toml:3: `dispatcher.lease_duration`: expected a duration of at least 500ms such as \"30s\", got \"soon\"\n \
         hint: relaybus.default.toml documents every key\n"
    );
    let named = run(folder.path(), &["migrate", "--config", "other.toml"]);
    assert_eq!(named.code, Some(2));
    assert!(named.stderr.contains("other.toml: cannot be read: "), "{named:?}");
}

#[test]
fn the_store_comes_from_the_command_line_then_the_environment_then_the_file() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("relaybus.toml"), "[store]\nurl = \"sqlite:file.db\"\n").unwrap();
    ok(run(folder.path(), &["migrate"]));
    assert!(folder.path().join("file.db").exists());
    let migrate =
        |arguments: &[&str]| command(folder.path(), arguments).env("RELAYBUS_STORE", "sqlite:environment.db").output().unwrap().into();
    ok(migrate(&["migrate"]));
    assert!(folder.path().join("environment.db").exists());
    ok(migrate(&["migrate", "--store", "sqlite:option.db"]));
    assert!(folder.path().join("option.db").exists());
}

#[test]
fn a_store_that_is_no_store_is_refused_and_one_that_cannot_be_reached_is_unavailable() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("text.db"), "this is no database, and it is long enough to have a header\n".repeat(100)).unwrap();
    for (url, code) in [("carrier-pigeon:coop", 2), ("sqlite:text.db", 2), ("sqlite:no/such/folder/relaybus.db", 4)] {
        let ended = run(folder.path(), &["deliveries", "list", "--store", url]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(code), ""), "{url}: {ended:?}");
        assert_eq!(ended.stderr.matches("error: ").count(), 1, "{url}: {ended:?}");
        assert!(ended.stderr.contains("\n hint: "), "{url}: {ended:?}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let folder = folder_with_handler();
    let lines: String = (0..3_000).map(|n| format!("{{\"topic\":\"order.created\",\"data\":{n}}}\n")).collect();
    ok(run_with_input(folder.path(), &["publish", "--ndjson", "-"], &lines));
    let mut child = command(folder.path(), &["deliveries", "list", "--json", "--limit", "3000"]).spawn().unwrap();
    drop(child.stdout.take());
    let ended = Ended::from(child.wait_with_output().unwrap());
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
}

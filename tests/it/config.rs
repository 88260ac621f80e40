//! The configuration file and the options of descriptors: one reading, every problem named.

use std::path::Path;
use std::time::Duration;

use relaybus_host::config::{self, Config, HandlerSettings, LogFormat};

fn parse(text: &str) -> Result<Config, Vec<String>> {
    Config::parse(text, Path::new("relaybus.toml")).map_err(|problems| problems.iter().map(ToString::to_string).collect())
}

fn problems(text: &str) -> Vec<String> {
    parse(text).expect_err("the text has problems")
}

fn options(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn the_embedded_file_says_what_the_code_does() {
    assert_eq!(parse(config::DEFAULT_TOML), Ok(Config::default()));
    assert_eq!(parse(""), Ok(Config::default()));
}

/// Each key is followed by nothing and preceded by its comment, so a key without one, or one that is missing, is found here.
#[test]
fn the_embedded_file_documents_every_key_and_no_other() {
    let (mut section, mut previous, mut documented) = (String::new(), "", Vec::new());
    for line in config::DEFAULT_TOML.lines() {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']').to_owned();
        } else if let Some((key, _)) = line.split_once(" = ").filter(|_| !line.starts_with('#')) {
            assert!(previous.starts_with("# "), "expected a comment before `{section}.{key}`, got `{previous}`");
            documented.push(format!("{section}.{key}"));
        }
        previous = line;
    }
    assert_eq!(documented, config::keys());
}

#[test]
fn every_key_can_be_changed() {
    let config = parse(
        r#"
        [store]
        url = "sqlite:other.db"
        call_timeout = "200ms"
        [dispatcher]
        concurrency = 2
        prefetch_bytes = 65536
        lease_duration = "1s"
        [engine]
        guest_threads = 1
        cache_dir = "/var/cache/relaybus"
        [log]
        level = "warn,relaybus_host=debug"
        format = "json"
        [handlers.resize]
        memory = "1GiB"
        "#,
    )
    .unwrap();
    assert_eq!(config.store.url, "sqlite:other.db");
    assert_eq!(config.store.options().call_timeout, Duration::from_millis(200));
    assert_eq!((config.dispatcher.concurrency, config.dispatcher.prefetch, config.dispatcher.prefetch_bytes), (2, 500, 65_536));
    assert_eq!(config.engine.guest_threads, Some(1));
    assert_eq!(config.engine.cache_dir.as_deref(), Some(Path::new("/var/cache/relaybus")));
    assert_eq!(config.log.format, LogFormat::Json);
    let resize = HandlerSettings::resolve(&config.handler_defaults, &[], config.handlers.get("resize")).unwrap();
    assert_eq!(resize.memory_bytes, 1 << 30);
}

#[test]
fn all_problems_are_listed_with_file_and_line() {
    let text = "[dispatcher]\npoll_interval = \"fast\"\npol_interval = \"1s\"\nlease_duration = \"100ms\"\nconcurrency = 0\n\n\
                [store]\nurl = 5\n\n[handler_defaults]\nretry_jitter = 1.5\nmemory = \"lots\"\ntimeout = [1]\n\n\
                [handlers.resize]\ntime_out = \"5s\"\nmax_attempts = \"many\"\n\n[dispacher]\n";
    assert_eq!(
        problems(text),
        [
            "relaybus.toml:2: `dispatcher.poll_interval`: expected a duration of at least 10ms such as \"250ms\", got \"fast\"",
            "relaybus.toml:3: `dispatcher.pol_interval`: unknown key; the nearest is `poll_interval`",
            "relaybus.toml:4: `dispatcher.lease_duration`: expected a duration of at least 500ms such as \"30s\", got \"100ms\"",
            "relaybus.toml:5: `dispatcher.concurrency`: expected a whole number from 1 to 10000, got 0",
            "relaybus.toml:8: `store.url`: expected a store such as \"sqlite:relaybus.db\", got 5",
            "relaybus.toml:11: `handler_defaults.retry_jitter`: expected a number from 0.0 to 1.0, got 1.5",
            "relaybus.toml:12: `handler_defaults.memory`: expected a size of at least 1.0 MiB such as \"128MiB\", got \"lots\"",
            "relaybus.toml:13: `handler_defaults.timeout`: expected a duration of at least 10ms such as \"5m\", got an array",
            "relaybus.toml:16: `handlers.resize.time_out`: unknown key; the nearest is `timeout`",
            "relaybus.toml:17: `handlers.resize.max_attempts`: expected a whole number from 1 to 10000, got \"many\"",
            "relaybus.toml:19: `dispacher`: unknown section; the nearest is `dispatcher`",
        ]
    );
}

#[test]
fn a_text_that_is_no_toml_is_reported_by_line_together_with_what_else_is_wrong() {
    let found = problems("[log]\nlevel = \"loud\"\nformat =\n");
    assert!(found.iter().any(|problem| problem.starts_with("relaybus.toml:3: ")), "{found:?}");
    assert!(found.iter().any(|problem| problem.starts_with("relaybus.toml:2: `log.level`: expected a level")), "{found:?}");
}

#[test]
fn values_and_tables_in_the_wrong_place_are_problems() {
    let text = "poll_interval = \"1s\"\n[handlers]\nresize = 5\n[handlers.\"a b\"]\n[log.more]\n";
    assert_eq!(
        problems(text),
        [
            "relaybus.toml:1: `poll_interval`: expected a section such as `[dispatcher]` before any value, got \"1s\"",
            "relaybus.toml:3: `handlers.resize`: expected a table such as `[handlers.resize]`, got 5",
            "relaybus.toml:4: `handlers.a b`: expected a handler's name of 1 to 64 characters of `A-Z a-z 0-9 _ -`",
            "relaybus.toml:5: `log.more`: expected no table inside `log`",
        ]
    );
}

#[test]
fn a_call_timeout_that_could_cost_a_lease_is_refused() {
    assert_eq!(
        problems("[dispatcher]\nlease_duration = \"15s\"\n"),
        [
            "relaybus.toml:2: `store.call_timeout`: expected less than a third of `dispatcher.lease_duration` (15s), so that one hanging call \
          cannot cost a lease, got 5s"
        ]
    );
    assert!(parse("[dispatcher]\nlease_duration = \"15001ms\"\n").is_ok());
}

#[test]
fn a_file_that_cannot_be_read_is_one_problem() {
    let found = Config::load(Path::new("no/such/file.toml")).unwrap_err();
    assert_eq!(found.len(), 1);
    assert!(found[0].to_string().starts_with("no/such/file.toml: cannot be read: "), "{}", found[0]);
}

#[test]
fn a_handlers_section_overrides_its_component_and_that_the_defaults() {
    let config =
        parse("[handler_defaults]\ntimeout = \"1m\"\nmax_attempts = 3\nhandles = 50\n[handlers.resize]\ntimeout = \"7s\"\n").unwrap();
    let descriptor = options(&[("timeout", "30s"), ("max_attempts", "4"), ("concurrency", "8"), ("retry_factor", "1.5")]);
    let resize = HandlerSettings::resolve(&config.handler_defaults, &descriptor, config.handlers.get("resize")).unwrap();
    assert_eq!((resize.timeout, resize.max_attempts, resize.handles), (Duration::from_secs(7), 4, 50));
    assert_eq!(resize.concurrency, Some(8));
    let other = HandlerSettings::resolve(&config.handler_defaults, &descriptor, config.handlers.get("other")).unwrap();
    assert_eq!(other.timeout, Duration::from_secs(30));
}

#[test]
fn every_bad_option_of_a_descriptor_is_named() {
    let bad = options(&[("timeout", "soon"), ("max-attempts", "5"), ("concurrency", "-1"), ("concurrency", "2")]);
    let found = HandlerSettings::resolve(&HandlerSettings::default(), &bad, None).unwrap_err();
    let found: Vec<_> = found.iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        [
            "option `timeout`: expected a duration of at least 10ms such as \"5m\", got \"soon\"",
            "option `max-attempts`: unknown key; the nearest is `max_attempts`",
            "option `concurrency`: expected a whole number from 0 to 10000, got \"-1\"",
            "option `concurrency`: expected once, got it again as \"2\"",
        ]
    );
}

#[test]
fn delays_that_contradict_each_other_are_a_problem_wherever_they_come_from() {
    let found = problems("[handler_defaults]\nretry_initial_delay = \"1h\"\n");
    let expected = "`handler_defaults.retry_max_delay`: expected at least `retry_initial_delay` (1h), got 15m";
    assert_eq!(found, [format!("relaybus.toml:2: {expected}")]);
    let config = parse("[handlers.resize]\nretry_max_delay = \"1s\"\n").unwrap();
    let found =
        HandlerSettings::resolve(&config.handler_defaults, &options(&[("retry_initial_delay", "2s")]), config.handlers.get("resize"));
    assert_eq!(
        found.unwrap_err()[0].to_string(),
        "relaybus.toml:2: `retry_max_delay`: expected at least `retry_initial_delay` (2s), got 1s"
    );
}

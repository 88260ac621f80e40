//! Every command says and does the same on every store.

use std::collections::HashMap;

use relaybus_host::store::Backend;
use relaybus_tests::stores::{self, Database};
use relaybus_tests::{guests, host};

use crate::harness::{On, case};

/// What one command said, with whatever differs from run to run made equal.
#[derive(Debug, PartialEq, Eq)]
struct Said {
    arguments: String,
    code: Option<i32>,
    stdout: Vec<String>,
    stderr: Vec<String>,
}

/// A tour over all commands on one store.
struct Tour {
    folder: tempfile::TempDir,
    url: String,
    /// Names of what is new in each run, such as ids, in the order in which they come up.
    names: HashMap<String, String>,
    said: Vec<Said>,
}

impl Tour {
    /// Runs a command, and answers its stdout as it was.
    fn run(&mut self, arguments: &[&str], input: &str) -> String {
        let ended = host::run_with_input(self.folder.path(), &[arguments, &["--store", &self.url]].concat(), input);
        let arguments = arguments.iter().map(|argument| self.normal(argument)).collect::<Vec<_>>().join(" ");
        // What `--until-idle` waits for depends on the moment at which it looks.
        let lines = |text: &str, tour: &mut Self| {
            text.lines().filter(|line| !line.starts_with("waiting for ")).map(|line| tour.normal(line)).collect()
        };
        let (stdout, stderr) = (lines(&ended.stdout, self), lines(&ended.stderr, self));
        self.said.push(Said { arguments, code: ended.code, stdout, stderr });
        ended.stdout
    }

    /// The first id that a list of deliveries shows.
    fn first_id(&mut self, arguments: &[&str]) -> String {
        let stdout = self.run(&[&["deliveries", "list", "--json"], arguments].concat(), "");
        let line = stdout.lines().next().unwrap_or_else(|| panic!("expected a delivery: {:?}", self.said.last()));
        serde_json::from_str::<serde_json::Value>(line).unwrap()["id"].as_str().unwrap().to_owned()
    }

    /// Ids become names, times, durations and the name of the backend go, and the rest stays as it is.
    fn normal(&mut self, line: &str) -> String {
        let is_of_a_word = |c: char| c.is_ascii_alphanumeric() || "-:.+_".contains(c);
        let mut normal = String::new();
        let mut rest = line;
        while !rest.is_empty() {
            let end = rest.find(|c| !is_of_a_word(c)).unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            let is_backend = stores::BACKENDS.iter().any(|backend| stores::name_of(*backend) == word);
            let is_elapsed = normal.ends_with("\"elapsed_ms\"") || normal.ends_with("released, in ");
            normal += &if uuid::Uuid::try_parse(word).is_ok() {
                let n = self.names.len();
                self.names.entry(word.to_owned()).or_insert_with(|| format!("<id {n}>")).clone()
            } else if chrono::DateTime::parse_from_rfc3339(word).is_ok() || is_elapsed {
                "<time>".to_owned()
            } else if is_backend {
                "<backend>".to_owned()
            } else {
                word.to_owned()
            };
            let first = after.chars().next().map_or(0, char::len_utf8);
            normal += &after[..first];
            rest = &after[first..];
        }
        normal
    }
}

/// Everything that the commands said on a new store of this backend.
async fn tour(backend: Backend) -> Vec<Said> {
    const MISSING: &str = "0197f0a0-0000-8000-8000-000000000000";
    let database = Database::create_empty(backend).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let settings = "[log]\nlevel = \"warn\"\n[handler_defaults]\nmax_attempts = 2\nretry_initial_delay = \"50ms\"\n";
    std::fs::write(folder.path().join("relaybus.toml"), settings).unwrap();
    let mut tour = Tour { folder, url: database.url.clone(), names: HashMap::new(), said: Vec::new() };
    let components = ["noop", "fail-retry", "publish-two"].map(|guest| guests::component(guest).to_str().unwrap().to_owned());
    let [noop, fail_retry, publish_two] = components.each_ref().map(String::as_str);

    tour.run(&["migrate"], "");
    tour.run(&["migrate", "--json"], "");
    for component in [noop, fail_retry, publish_two, noop] {
        tour.run(&["handlers", "add", component, "--json"], "");
    }
    tour.run(&["publish", "noop.a", "--data", "{\"n\": 1}", "--key", "k", "--header", "trace=7", "--dedup-id", "d", "--json"], "");
    tour.run(&["publish", "noop.a", "--data", "{}", "--dedup-id", "d", "--json"], "");
    tour.run(&["publish", "weather.changed", "--data", "{}"], "");
    let lines = "{\"topic\":\"fail-retry.a\",\"data\":1}\n{\"topic\":\"publish-two.a\",\"data\":\"ok\"}\nno line\n{\"data\":[2]}\n";
    tour.run(&["publish", "noop.b", "--ndjson", "-", "--json"], lines);
    tour.run(&["publish", "noop.later", "--data", "3", "--delay", "1h"], "");
    for status in ["pending", "processing", "completed", "buried"] {
        tour.run(&["deliveries", "list", "--status", status, "--handler", "fail-retry", "--json"], "");
    }
    let later = tour.first_id(&["--topic", "noop.later"]);
    tour.run(&["deliveries", "show", &later], "");
    tour.run(&["deliveries", "show", MISSING], "");
    tour.run(&["deliveries", "redrive", &later, MISSING, "--json"], "");
    tour.run(&["deliveries", "bury", &later], "");
    tour.run(&["deliveries", "redrive", "--all"], "");
    tour.run(&["deliveries", "release", &later, "--json"], "");
    tour.run(&["run", fail_retry, "--until-idle", "--json"], "");
    tour.run(&["run", publish_two, "--until-idle", "--json"], "");
    tour.run(&["run", noop, "--until-idle"], "");
    let failed = tour.first_id(&["--handler", "fail-retry"]);
    tour.run(&["deliveries", "show", &failed, "--json"], "");
    let keyed = tour.first_id(&["--topic", "noop.a"]);
    tour.run(&["deliveries", "show", &keyed], "");
    tour.run(&["handlers", "list", "--json"], "");
    tour.run(&["handlers", "list"], "");
    tour.run(&["deliveries", "redrive", &failed], "");
    tour.run(&["handlers", "remove", "fail-retry"], "");
    tour.run(&["handlers", "remove", "fail-retry", "--bury"], "");
    tour.run(&["handlers", "remove", "fail-retry"], "");
    tour.run(&["prune", "--json"], "");
    tour.run(&["deliveries", "prune", "--completed", "0s", "--buried", "0s", "--json"], "");
    tour.run(&["deliveries", "list", "--json"], "");
    database.remove().await;
    tour.said
}

case!(On::Servers, every_command_says_and_does_the_same_as_on_sqlite, |backend| async move {
    let (expected, said) = (tour(Backend::Sqlite).await, tour(backend).await);
    assert_eq!(said.len(), expected.len());
    for (said, expected) in said.iter().zip(&expected) {
        assert_eq!(said, expected);
    }
});

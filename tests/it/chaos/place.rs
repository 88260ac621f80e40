//! A database under audit, a folder with a configuration, and the hosts and commands that are started there.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use relaybus_host::delivery::{DeliveryId, NewEvent};
use relaybus_host::store::{self, Backend, DeliverySummary, ErrorKind, List, OpenStore, StoreError, StoreOptions};
use relaybus_tests::host::{self, Ended, Running};
use relaybus_tests::private_server::PrivateServer;
use relaybus_tests::stores::Database;
use relaybus_tests::{guests, pause};
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::audit::Audit;
use crate::harness::patience;
use crate::history::{Facts, Transition, check};

/// How long leases are, and the part of the configuration that says so.
pub(crate) struct Leases {
    pub(crate) duration: Duration,
    configuration: &'static str,
}

/// Takeovers within seconds. The calls get as much time as such a lease allows.
const ON_A_SERVER: Leases = Leases {
    duration: Duration::from_secs(2),
    configuration: "[store]\ncall_timeout = \"660ms\"\n[dispatcher]\nlease_duration = \"2s\"\npoll_interval = \"250ms\"\n",
};

/// Less soon, for cases that count crashes on a busy machine; and for a file, where several processes wait for their turn to write.
pub(crate) const MEDIUM: Leases = Leases {
    duration: Duration::from_secs(5),
    configuration: "[store]\ncall_timeout = \"1600ms\"\n[dispatcher]\nlease_duration = \"5s\"\npoll_interval = \"250ms\"\n",
};

/// No lease runs out, nor is it renewed, before the case is over.
pub(crate) const LONG: Leases =
    Leases { duration: Duration::from_secs(600), configuration: "[dispatcher]\nlease_duration = \"10m\"\npoll_interval = \"250ms\"\n" };

/// See the module.
pub(crate) struct Place {
    pub(crate) url: String,
    leases: Leases,
    database: Database,
    folder: tempfile::TempDir,
    opened: OpenStore,
    audit: Audit,
}

/// How many deliveries have each status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) pending: u64,
    pub(crate) processing: u64,
    pub(crate) completed: u64,
    pub(crate) buried: u64,
}

impl Place {
    /// On the server that all cases share, or in a file of its own.
    pub(crate) async fn on(backend: Backend) -> Self {
        Self::of(Database::create(backend).await.unwrap()).await
    }

    /// On a server that the case has to itself.
    pub(crate) async fn at(server: &PrivateServer, backend: Backend) -> Self {
        Self::of(Database::create_empty_at(backend, server.url()).await.unwrap()).await
    }

    async fn of(database: Database) -> Self {
        let url = database.url.clone();
        let opened = store::open(&url, StoreOptions::default()).await.unwrap();
        let audit = Audit::begin(database.backend, &url).await;
        let leases = match database.backend {
            Backend::Sqlite => MEDIUM,
            Backend::Postgres | Backend::MongoDb => ON_A_SERVER,
        };
        let place = Self { url, leases, database, folder: tempfile::tempdir().unwrap(), opened, audit };
        place.configure("");
        place
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Gives what is started from now on a configuration beside the length of leases.
    pub(crate) fn configure(&self, rest: &str) {
        std::fs::write(self.folder().join("relaybus.toml"), format!("{}{rest}", self.leases.configuration)).unwrap();
    }

    /// The same place, before anything is started, with leases of another length than the short ones.
    pub(crate) fn with_leases(mut self, leases: Leases) -> Self {
        self.leases = leases;
        self.configure("");
        self
    }

    /// Runs a command on this store, which must end well.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ended {
        self.run_as(arguments, |command| command)
    }

    /// The same, of a command that `change` has changed; again if the store could not be opened in time, as [`start`] has it.
    pub(crate) fn run_as(&self, arguments: &[&str], change: impl Fn(&mut Command) -> &mut Command) -> Ended {
        let deadline = Instant::now() + patience();
        loop {
            let mut command = host::command(self.folder(), &[arguments, &["--store", &self.url]].concat());
            let ended = Ended::from(change(&mut command).output().unwrap());
            if ended.code != Some(UNAVAILABLE) || Instant::now() > deadline {
                assert_eq!(ended.code, Some(0), "{arguments:?}: {ended:?}");
                return ended;
            }
        }
    }

    /// Subscribes the guest, before any host runs it.
    pub(crate) fn add(&self, guest: &str) {
        self.run(&["handlers", "add", guests::component(guest).to_str().unwrap()]);
    }

    /// A host that serves the guest and has begun to.
    pub(crate) async fn start_host(&self, guest: &str, arguments: &[&str]) -> Running {
        start(&mut self.host(guest, arguments)).await
    }

    /// The command that starts such a host.
    pub(crate) fn host(&self, guest: &str, arguments: &[&str]) -> Command {
        let component = guests::component(guest);
        host::command(self.folder(), &[&["run", component.to_str().unwrap(), "--json", "--store", &self.url], arguments].concat())
    }

    /// Publishes, again and again while the store is away: the ids make sure that each event is stored once (P5).
    pub(crate) async fn publish(&self, topic: &str, payloads: impl IntoIterator<Item = String>) {
        let events: Vec<_> = payloads.into_iter().map(|payload| NewEvent::new(topic.parse().unwrap(), payload)).collect();
        for events in events.chunks(1000) {
            let answers = persistently(|| self.opened.store.publish(events.to_vec())).await;
            for answer in answers {
                assert_eq!(answer.unwrap().n_deliveries, 1);
            }
        }
    }

    pub(crate) async fn counts(&self) -> Counts {
        let handlers = persistently(|| self.opened.operators.list_handlers()).await;
        handlers.iter().fold(Counts::default(), |sum, handler| Counts {
            pending: sum.pending + handler.pending,
            processing: sum.processing + handler.processing,
            completed: sum.completed + handler.completed,
            buried: sum.buried + handler.buried,
        })
    }

    /// Waits until the counts are as they should be. Looks now and again only, to leave the machine to the hosts.
    pub(crate) async fn until(&self, what: &str, is_so: impl Fn(Counts) -> bool) -> Counts {
        let deadline = Instant::now() + patience();
        let mut looks = every(Duration::from_millis(100));
        loop {
            looks.tick().await;
            let counts = self.counts().await;
            if is_so(counts) {
                return counts;
            }
            assert!(Instant::now() < deadline, "expected {what}, got {counts:?}");
        }
    }

    pub(crate) async fn until_completed(&self, n: usize) {
        self.until("everything to be completed", |counts| counts.completed == n as u64).await;
    }

    /// All deliveries, latest first, up to 1,000.
    pub(crate) async fn deliveries(&self) -> Vec<DeliverySummary> {
        persistently(|| self.opened.operators.list(List { limit: 1000, ..List::default() })).await
    }

    /// Waits until a delivery is as it should be.
    pub(crate) async fn until_delivery(&self, id: DeliveryId, what: &str, is_so: impl Fn(&DeliverySummary) -> bool) -> DeliverySummary {
        let deadline = Instant::now() + patience();
        loop {
            let delivery = persistently(|| self.opened.operators.show(id)).await.summary;
            if is_so(&delivery) {
                return delivery;
            }
            assert!(Instant::now() < deadline, "expected a delivery that {what}, got {delivery:#?}");
            pause().await;
        }
    }

    /// What has happened to the deliveries so far.
    pub(crate) async fn history(&self) -> Vec<Transition> {
        self.audit.transitions().await
    }

    /// Checks what has happened so far against the rules.
    ///
    /// # Panics
    /// With everything that is against them.
    pub(crate) async fn facts(&self) -> Facts {
        check(&self.history().await, self.leases.duration).unwrap_or_else(|problems| panic!("{problems}"))
    }

    pub(crate) async fn remove(self) {
        self.opened.store.close().await;
        self.audit.close().await;
        self.database.remove().await;
    }
}

/// Starts a host, and returns when it has begun to work. As a service manager does, it starts it again if the store could not be opened in
/// time: on a busy machine the short time limit of these tests is over before a connection is there.
pub(crate) async fn start(command: &mut Command) -> Running {
    let deadline = Instant::now() + patience();
    loop {
        let mut host = Running::start(command);
        while !has_logged(&host, &[STARTED]) && host.status().is_none() {
            pause().await;
        }
        match host.status().map(|status| status.code()) {
            Some(Some(UNAVAILABLE)) if Instant::now() < deadline => {}
            None | Some(Some(0)) => return host,
            Some(code) => panic!("the host ended with {code:?}: {}", host.log().join("\n")),
        }
    }
}

const STARTED: &str = "dispatcher started";

/// "the store could not be reached, or did not answer in time", by the table of exit codes.
pub(crate) const UNAVAILABLE: i32 = 4;

/// Stops the hosts in order; each must have stayed up until now, and end well.
pub(crate) async fn stop(hosts: Vec<Running>) -> Vec<Ended> {
    let mut ended = Vec::new();
    for host in hosts {
        let end = host.terminate().await;
        assert_eq!(end.code, Some(0), "{end:?}");
        ended.push(end);
    }
    ended
}

fn has_logged(host: &Running, texts: &[&str]) -> bool {
    host.log().iter().any(|line| texts.iter().any(|text| line.contains(text)))
}

/// Waits until the host has logged a line with one of these in it.
pub(crate) async fn until_logged(host: &Running, texts: &[&str]) {
    let deadline = Instant::now() + patience();
    while !has_logged(host, texts) {
        assert!(Instant::now() < deadline, "expected one of {texts:?} in the log, got\n{}", host.log().join("\n"));
        pause().await;
    }
}

/// The beat of a fault that comes again and again. It is no synchronisation: what is waited for is looked at.
pub(crate) fn every(period: Duration) -> Interval {
    let mut beat = interval(period);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    beat
}

/// Asks again while the store is away, or busy.
async fn persistently<T, F: Future<Output = Result<T, StoreError>>>(mut ask: impl FnMut() -> F) -> T {
    let deadline = Instant::now() + patience();
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(error) => {
                let may_pass = match error.kind {
                    ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::Conflict => true,
                    ErrorKind::LeaseLost | ErrorKind::NotFound | ErrorKind::Corrupt | ErrorKind::Misconfigured => false,
                };
                assert!(may_pass && Instant::now() < deadline, "{error}: {:?}", error.source);
                pause().await;
            }
        }
    }
}

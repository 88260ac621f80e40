//! One call to the server: a time limit, majority writes, and an error that says what happened.
//!
//! Each call is a task of its own: a caller that goes away does not stop it between two commands. The driver closes the connection of a
//! command that was given up, and never returns it to its pool.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bson::raw::RawArrayBuf;
use bson::{Bson, Document, RawDocumentBuf, doc};
use futures::TryStreamExt;
use mongodb::error::ErrorKind as DriverErrorKind;
use mongodb::options::{AggregateOptions, FindOptions};
use mongodb::{Collection, Database};
use tokio::time::Instant;

use super::connect::Reach;
use super::documents::MIGRATIONS;
use crate::store::{ErrorKind, Outcome, Result, StoreError};

/// The most statements, and bytes of them, in one command. The server takes 100,000, and 16 MiB with what surrounds them.
const MAX_STATEMENTS: usize = 10_000;
const MAX_STATEMENT_BYTES: usize = (16 << 20) - (256 << 10);
/// So many documents that a first answer is the whole one, unless its 16 MiB are full.
const BATCH_SIZE: u32 = 100_000;

/// Server error codes that we branch on.
pub(super) mod code {
    pub(in super::super) const DUPLICATE_KEY: i32 = 11000;
    pub(super) const MAX_TIME_EXPIRED: i32 = 50;
    pub(super) const WRITE_CONFLICT: i32 = 112;
    pub(in super::super) const TOO_LARGE: i32 = 10334;
    /// Said before anything was done.
    pub(super) const REFUSED: [i32; 5] = [13, 18, 8000, 10107, 13435];
    pub(super) const ACCESS_DENIED: [i32; 3] = [13, 18, 8000];
    pub(super) const DISK_FULL: i32 = 14031;
}

/// Why a call failed.
#[derive(Debug)]
pub(super) enum Trouble {
    Driver(mongodb::error::Error),
    /// The write is there, but a majority has not said so in time.
    NotConfirmed(String),
    /// A statement, while others of its command may have been carried out.
    Refused(Refusal),
    /// Something that the server holds cannot be read.
    Corrupt(String),
    /// The server is none that we can work with.
    Unfit(String),
    TooLate,
}

impl From<mongodb::error::Error> for Trouble {
    fn from(error: mongodb::error::Error) -> Self {
        Self::Driver(error)
    }
}

impl Trouble {
    fn code(&self) -> Option<i32> {
        match self {
            Self::Driver(error) => {
                if let DriverErrorKind::Command(error) = error.kind.as_ref() {
                    Some(error.code)
                } else {
                    None
                }
            }
            Self::Refused(refusal) => Some(refusal.code),
            Self::NotConfirmed(_) | Self::Corrupt(_) | Self::Unfit(_) | Self::TooLate => None,
        }
    }

    /// The server gave up because the command's time was over: most likely something else holds a document in an open transaction.
    pub(super) fn is_out_of_time(&self) -> bool {
        self.code() == Some(code::MAX_TIME_EXPIRED)
    }
}

/// Calls on one database. Cheap to clone.
#[derive(Clone)]
pub(super) struct Calls {
    reach: Arc<Reach>,
    call_timeout: Duration,
    /// For messages: database and server, without the password.
    server: String,
}

impl Calls {
    pub(super) fn new(reach: Arc<Reach>, call_timeout: Duration, server: String) -> Self {
        Self { reach, call_timeout, server }
    }

    /// By the client of the moment: not to be kept for longer than a call.
    pub(super) fn database(&self) -> Database {
        self.reach.database()
    }

    pub(super) fn call_timeout(&self) -> Duration {
        self.call_timeout
    }

    /// Runs `work`, all of whose commands together get the time of one call.
    pub(super) async fn run<T, F, W>(&self, operation: &'static str, work: F) -> Result<T>
    where
        T: Send + 'static,
        W: Future<Output = Result<T, Trouble>> + Send + 'static,
        F: FnOnce(Call) -> W,
    {
        let deadline = Instant::now() + self.call_timeout;
        let has_written = Arc::new(AtomicBool::new(false));
        let call = Call { database: self.reach.database(), deadline, has_written: Arc::clone(&has_written) };
        let work = tokio::spawn(tokio::time::timeout_at(deadline, work(call)));
        let answer = match work.await {
            Ok(answer) => answer.unwrap_or(Err(Trouble::TooLate)),
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        };
        match &answer {
            Err(Trouble::TooLate) => self.reach.not_answered(),
            // A lost connection is noticed by the driver itself.
            Ok(_) | Err(_) => self.reach.answered(),
        }
        answer.map_err(|trouble| {
            let outcome = if has_written.load(Ordering::Relaxed) { Outcome::Unknown } else { Outcome::NotApplied };
            self.explain(operation, trouble).with_outcome(outcome)
        })
    }

    fn explain(&self, operation: &'static str, trouble: Trouble) -> StoreError {
        let server = &self.server;
        let code = trouble.code();
        let (kind, message) = match &trouble {
            Trouble::TooLate => (ErrorKind::Timeout, format!("{server} did not answer within {:?}", self.call_timeout)),
            Trouble::NotConfirmed(problem) => (ErrorKind::Timeout, format!("a majority of {server} did not confirm a write: {problem}")),
            Trouble::Corrupt(problem) => (ErrorKind::Corrupt, format!("{server} holds a value that cannot be read: {problem}")),
            Trouble::Unfit(problem) => (ErrorKind::Misconfigured, format!("{server}: {problem}")),
            Trouble::Driver(error) => explain_code(code, server).unwrap_or_else(|| explain_driver(error, server)),
            Trouble::Refused(refusal) => {
                let refused = || (ErrorKind::Corrupt, format!("{server} refuses a write: {}", refusal.message));
                explain_code(code, server).unwrap_or_else(refused)
            }
        };
        let error = StoreError::new(operation, kind, message);
        match trouble {
            Trouble::Driver(source) => error.with_source(source),
            Trouble::NotConfirmed(_) | Trouble::Refused(_) | Trouble::Corrupt(_) | Trouble::Unfit(_) | Trouble::TooLate => error,
        }
    }
}

fn explain_code(code: Option<i32>, server: &str) -> Option<(ErrorKind, String)> {
    match code? {
        code if code::ACCESS_DENIED.contains(&code) => Some((ErrorKind::Misconfigured, format!("{server} denies access"))),
        code::MAX_TIME_EXPIRED => Some((ErrorKind::Timeout, format!("the command took too long on {server}"))),
        code::WRITE_CONFLICT => Some((ErrorKind::Conflict, format!("another transaction on {server} was in the way"))),
        code::DISK_FULL => Some((ErrorKind::Unavailable, format!("the disk of {server} is full"))),
        _ => None,
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the driver's enum is not closed; what it may add is some kind of lost connection")]
fn explain_driver(error: &mongodb::error::Error, server: &str) -> (ErrorKind, String) {
    match error.kind.as_ref() {
        DriverErrorKind::Authentication { .. } => (ErrorKind::Misconfigured, format!("{server} denies access")),
        DriverErrorKind::ServerSelection { .. } | DriverErrorKind::DnsResolve { .. } => {
            (ErrorKind::Unavailable, format!("{server} cannot be reached; is it running?"))
        }
        DriverErrorKind::Shutdown => (ErrorKind::Unavailable, format!("the connection to {server} is closed")),
        DriverErrorKind::InvalidTlsConfig { .. } | DriverErrorKind::InvalidArgument { .. } => {
            (ErrorKind::Misconfigured, format!("{server} cannot be used as its URL says"))
        }
        DriverErrorKind::IncompatibleServer { .. } => (ErrorKind::Misconfigured, format!("expected MongoDB 6.0 or later at {server}")),
        DriverErrorKind::Command(_) => (ErrorKind::Unavailable, format!("{server} refuses the command for now")),
        _ => (ErrorKind::Unavailable, format!("the connection to {server} was lost")),
    }
}

/// What an `update` did.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// Documents that matched, upserted ones included.
    pub(super) n: u64,
    /// Statements, by their place in the request, that made a new document.
    pub(super) upserted: BTreeSet<usize>,
    /// Statements that the server refused, by their place in the request. The others were carried out.
    pub(super) refused: BTreeMap<usize, Refusal>,
}

impl Written {
    /// How many documents matched, if no statement was refused.
    pub(super) fn all(self) -> Result<u64, Trouble> {
        self.refused.into_values().next().map_or(Ok(self.n), |refusal| Err(Trouble::Refused(refusal)))
    }
}

/// Why the server refused one statement of many.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    pub(super) code: i32,
    pub(super) message: String,
}

/// A call under way: its commands share one deadline.
#[derive(Clone)]
pub(super) struct Call {
    database: Database,
    deadline: Instant,
    /// Set once a write may have been applied.
    has_written: Arc<AtomicBool>,
}

impl Call {
    /// The documents that match `filter`.
    pub(super) async fn find(&self, collection: &str, filter: Document, mut options: FindOptions) -> Result<Vec<Document>, Trouble> {
        options.max_time = Some(self.time_left());
        options.batch_size = Some(BATCH_SIZE);
        Ok(self.collection(collection).find(filter).with_options(options).await?.try_collect().await?)
    }

    pub(super) async fn aggregate(&self, collection: &str, pipeline: Vec<Document>) -> Result<Vec<Document>, Trouble> {
        let options = AggregateOptions::builder().max_time(self.time_left()).batch_size(BATCH_SIZE).build();
        Ok(self.collection(collection).aggregate(pipeline).with_options(options).await?.try_collect().await?)
    }

    /// Carries out `statements` (`{ q, u, upsert?, multi? }`) in as few commands as they fit in; one that is refused does not stop the others.
    pub(super) async fn update(&self, collection: &str, statements: Vec<Document>) -> Result<Written, Trouble> {
        self.update_within(collection, statements, self.time_left()).await
    }

    /// [`update`](Self::update) with a time limit of its own for the statements, not for their confirmation: when it is over
    /// ([`Trouble::is_out_of_time`]), what was done by then stays done and has been confirmed.
    pub(super) async fn update_within(&self, collection: &str, statements: Vec<Document>, limit: Duration) -> Result<Written, Trouble> {
        let mut written = Written::default();
        let mut chunk = Chunk::default();
        for (place, statement) in statements.into_iter().enumerate() {
            let statement = RawDocumentBuf::try_from(&statement).map_err(|error| Trouble::Corrupt(error.to_string()))?;
            let n_bytes = statement.as_bytes().len();
            if n_bytes > MAX_STATEMENT_BYTES {
                let message = format!("expected a statement of at most {MAX_STATEMENT_BYTES} bytes, got {n_bytes}");
                written.refused.insert(place, Refusal { code: code::TOO_LARGE, message });
                continue;
            }
            if !chunk.has_room_for(&statement) {
                self.send(collection, std::mem::take(&mut chunk), limit, &mut written).await?;
            }
            chunk.push(place, &statement);
        }
        if !chunk.places.is_empty() {
            self.send(collection, chunk, limit, &mut written).await?;
        }
        Ok(written)
    }

    /// Changes the document that matches, and answers it as it was before.
    pub(super) async fn find_and_update(
        &self,
        collection: &str,
        query: Document,
        update: &[Document],
    ) -> Result<Option<Document>, Trouble> {
        let command = doc! {
            "findAndModify": collection,
            "query": query,
            "update": update,
            "maxTimeMS": millis(self.time_left()),
            "writeConcern": self.write_concern(),
        };
        let answer = self.command(RawDocumentBuf::try_from(&command).map_err(|error| Trouble::Corrupt(error.to_string()))?).await?;
        Ok(answer.get_document("value").ok().cloned())
    }

    /// Deletes what matches `filter`, and answers how many that were.
    pub(super) async fn delete(&self, collection: &str, filter: Document) -> Result<u64, Trouble> {
        let command = doc! {
            "delete": collection,
            "deletes": [{ "q": filter, "limit": 0 }],
            "maxTimeMS": millis(self.time_left()),
            "writeConcern": self.write_concern(),
        };
        let answer = self.command(RawDocumentBuf::try_from(&command).map_err(|error| Trouble::Corrupt(error.to_string()))?).await?;
        if let Some(refusal) = refusals(&answer).map(|(_, refusal)| refusal).next() {
            return Err(Trouble::Refused(refusal));
        }
        Ok(count(&answer))
    }

    pub(super) fn collection(&self, name: &str) -> Collection<Document> {
        self.database.collection(name)
    }

    pub(super) fn database(&self) -> &Database {
        &self.database
    }

    /// Never zero, which would mean no limit.
    pub(super) fn time_left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1))
    }

    fn write_concern(&self) -> Document {
        doc! { "w": "majority", "wtimeout": millis(self.time_left()) }
    }

    async fn send(&self, collection: &str, chunk: Chunk, limit: Duration, written: &mut Written) -> Result<(), Trouble> {
        let Chunk { places, statements, .. } = chunk;
        let mut command = RawDocumentBuf::try_from(&doc! {
            "update": collection,
            "ordered": false,
            "maxTimeMS": millis(limit),
            "writeConcern": self.write_concern(),
        })
        .map_err(|error| Trouble::Corrupt(error.to_string()))?;
        command.append(bson::cstr!("updates"), statements);
        let answer = match self.command(command).await {
            Err(trouble) if trouble.is_out_of_time() => {
                self.confirm().await?;
                return Err(trouble);
            }
            answer => answer?,
        };
        written.n += count(&answer);
        written.upserted.extend(array(&answer, "upserted").filter_map(|entry| places.get(index(entry)?)));
        written.refused.extend(refusals(&answer).filter_map(|(index, refusal)| Some((*places.get(index)?, refusal))));
        Ok(())
    }

    /// Sends a write.
    async fn command(&self, command: RawDocumentBuf) -> Result<Document, Trouble> {
        let had_written = self.has_written.swap(true, Ordering::Relaxed);
        let answer = self.database.run_raw_command(command).await.map_err(Trouble::from);
        if answer.as_ref().is_err_and(|trouble| trouble.code().is_some_and(|code| code::REFUSED.contains(&code))) {
            self.has_written.store(had_written, Ordering::Relaxed);
        }
        let answer = answer?;
        match unconfirmed(&answer) {
            // The time of the statements was over, not that of the call.
            Some((code::MAX_TIME_EXPIRED, _)) => self.confirm().await.map(|()| answer),
            Some((_, problem)) => Err(Trouble::NotConfirmed(problem)),
            None => Ok(answer),
        }
    }

    /// Waits until a majority has all that was written before: a write that finds nothing to do is confirmed together with the last that did.
    async fn confirm(&self) -> Result<(), Trouble> {
        let nothing = doc! { "q": { "_id": Bson::Null }, "u": { "$unset": { "nothing": true } } };
        let command = doc! {
            "update": MIGRATIONS,
            "updates": [nothing],
            "maxTimeMS": millis(self.time_left()),
            "writeConcern": self.write_concern(),
        };
        match unconfirmed(&self.database.run_command(command).await?) {
            Some((_, problem)) => Err(Trouble::NotConfirmed(problem)),
            None => Ok(()),
        }
    }
}

/// Statements on their way into one command.
#[derive(Default)]
struct Chunk {
    /// Of each statement, in the request.
    places: Vec<usize>,
    n_bytes: usize,
    statements: RawArrayBuf,
}

impl Chunk {
    fn has_room_for(&self, statement: &RawDocumentBuf) -> bool {
        self.places.is_empty() || (self.places.len() < MAX_STATEMENTS && self.n_bytes + statement.as_bytes().len() <= MAX_STATEMENT_BYTES)
    }

    fn push(&mut self, place: usize, statement: &RawDocumentBuf) {
        self.places.push(place);
        self.n_bytes += statement.as_bytes().len();
        self.statements.push(statement.as_ref());
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX).max(1)
}

fn count(answer: &Document) -> u64 {
    answer.get_i32("n").map_or(0, |n| u64::from(n.unsigned_abs()))
}

fn array<'a>(answer: &'a Document, name: &str) -> impl Iterator<Item = &'a Document> {
    answer.get_array(name).into_iter().flatten().filter_map(Bson::as_document)
}

fn index(entry: &Document) -> Option<usize> {
    entry.get_i32("index").ok().and_then(|index| usize::try_from(index).ok())
}

fn refusals(answer: &Document) -> impl Iterator<Item = (usize, Refusal)> {
    let refusal = |error: &Document| Refusal {
        code: error.get_i32("code").unwrap_or(0),
        message: error.get_str("errmsg").unwrap_or("no reason given").to_owned(),
    };
    array(answer, "writeErrors").filter_map(move |error| Some((index(error)?, refusal(error))))
}

/// Why a majority has not confirmed a write.
fn unconfirmed(answer: &Document) -> Option<(i32, String)> {
    let problem = answer.get_document("writeConcernError").ok()?;
    Some((problem.get_i32("code").unwrap_or(0), problem.get_str("errmsg").unwrap_or("no reason given").to_owned()))
}

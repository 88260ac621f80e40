//! The command line: one file per command, each from arguments to calls of the library and back to text.
//!
//! Nothing here decides what happens to a delivery.

mod run;
mod publish;
mod check;
mod invoke;
mod deliveries;
mod handlers;
mod migrate;
mod components;
mod event;
mod import;
mod ndjson;
mod output;
mod exit;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::config::{self, Config};
use crate::engine::{Engine, EngineOptions};
use crate::store::{self, OpenStore};
use crate::telemetry::{self, Audience};
use exit::{CommandResult, Failure};
use output::{Form, Output};

/// Runs durable event handlers written in any language that compiles to a WebAssembly component.
#[derive(Debug, Parser)]
#[command(name = "relaybus-host", version, after_help = exit::TABLE, max_term_width = 120)]
struct Cli {
    #[command(flatten)]
    globals: Globals,
    #[command(subcommand)]
    command: Command,
}

const GLOBAL: &str = "Options of every command";

/// What every command understands.
#[derive(Debug, Args)]
struct Globals {
    /// The store: `sqlite:relaybus.db` (the default, in the current folder), `postgres://user@host/database` or `mongodb://host/database`
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "URL", env = "RELAYBUS_STORE", hide_env_values = true)]
    store: Option<String>,
    /// The configuration file [default: relaybus.toml in the current folder, if there is one]
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "FILE", env = "RELAYBUS_CONFIG")]
    config: Option<PathBuf>,
    /// Print JSON, one object a line
    #[arg(long, global = true, help_heading = GLOBAL)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run handlers
    Run(run::Arguments),
    /// Publish events
    Publish(publish::Arguments),
    /// Say what components are, what they need, and everything that is wrong with them
    Check(check::Arguments),
    /// Run one handler once, without a queue
    Invoke(invoke::Arguments),
    /// Look at deliveries, and repair them
    #[command(subcommand)]
    Deliveries(deliveries::Command),
    /// Look at handlers, and change who receives what
    #[command(subcommand)]
    Handlers(handlers::Command),
    /// Delete what was settled long enough ago (the same as `deliveries prune`)
    Prune(deliveries::prune::Arguments),
    /// Create the store, or bring its schema up to date
    Migrate,
}

/// What a command works with.
struct Context {
    config: Config,
    output: Output,
}

impl Context {
    fn new(globals: &Globals) -> Result<Self, Failure> {
        let mut config = match &globals.config {
            Some(path) => Config::load(path),
            None if Path::new(config::DEFAULT_PATH).exists() => Config::load(Path::new(config::DEFAULT_PATH)),
            None => Ok(Config::default()),
        }
        .map_err(|problems| Failure::configuration(&problems))?;
        if let Some(url) = &globals.store {
            config.store.url.clone_from(url);
        }
        let output = Output::new(if globals.json { Form::Json } else { Form::Text });
        Ok(Self { config, output })
    }

    async fn open_store(&self) -> Result<OpenStore, Failure> {
        Ok(store::open(&self.config.store.url, self.config.store.options()).await?)
    }
}

/// Does what the command line says.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    run(cli).unwrap_or_else(|failure| failure.tell()).into()
}

fn run(cli: Cli) -> CommandResult {
    let mut context = Context::new(&cli.globals)?;
    telemetry::init(&context.config.log, cli.command.audience());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let result = runtime.block_on(cli.command.run(&mut context));
    // A read of stdin cannot be taken back: it must not hold up the end.
    runtime.shutdown_background();
    context.output.flush()?;
    result
}

impl Command {
    const fn audience(&self) -> Audience {
        match self {
            Self::Run(_) => Audience::Operator,
            Self::Check(_)
            | Self::Invoke(_)
            | Self::Publish(_)
            | Self::Deliveries(_)
            | Self::Handlers(_)
            | Self::Prune(_)
            | Self::Migrate => Audience::Person,
        }
    }

    async fn run(self, context: &mut Context) -> CommandResult {
        match self {
            Self::Run(arguments) => run::run(arguments, context).await,
            Self::Check(arguments) => check::run(arguments, context).await,
            Self::Invoke(arguments) => invoke::run(arguments, context).await,
            Self::Publish(arguments) => publish::run(arguments, context).await,
            Self::Deliveries(command) => deliveries::run(command, context).await,
            Self::Handlers(command) => handlers::run(command, context).await,
            Self::Prune(arguments) => deliveries::prune::run(arguments, context).await,
            Self::Migrate => migrate::run(context).await,
        }
    }
}

/// Instances beside the run slots.
const LOADING_INSTANCES: u32 = 16;

/// Where compiled components are kept by default: in the user's cache folder.
fn cache_dir() -> Option<PathBuf> {
    directories::ProjectDirs::from("", "", "relaybus").map(|folders| folders.cache_dir().join("compiled"))
}

/// The engine that the configuration describes.
fn engine(config: &Config) -> Result<Engine, Failure> {
    let options = EngineOptions {
        // A few more than run slots: components are asked to describe themselves while others run.
        max_instances: config.dispatcher.concurrency + LOADING_INSTANCES,
        tick: config.engine.tick,
        worker_threads: config.engine.guest_threads.unwrap_or(0) as usize,
        cache: config.engine.cache_dir.clone().or_else(cache_dir),
        stack_bytes: config.engine.stack_bytes,
        pooling: config.engine.pooling,
    };
    Engine::new(options).map_err(|error| Failure::failed(format!("the engine could not be started: {error:#}")))
}

/// A tenant's or handler's name, for clap.
fn name(text: &str) -> Result<String, String> {
    if crate::delivery::is_valid_name(text) {
        Ok(text.to_owned())
    } else {
        Err(format!("expected 1 to {} characters of `A-Z a-z 0-9 _ -`", crate::delivery::MAX_NAME_BYTES))
    }
}

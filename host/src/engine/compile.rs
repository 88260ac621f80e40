//! From a file to a component that is ready to run.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};
use wasmtime::component::Component as WasmComponent;

use super::imports::EventHandlerPre;
use super::instance::{self, RunState};
use super::problem::{LoadError, Problem};
use super::{Shared, kind, link, precompiled};

/// A loaded handler. Cheap to clone.
#[derive(Clone)]
pub struct Component {
    pub(super) shared: Arc<Shared>,
    pub(super) pre: EventHandlerPre<RunState>,
    facts: Arc<Facts>,
}

struct Facts {
    path: PathBuf,
    digest: String,
    n_bytes: usize,
    imports: Vec<String>,
    exports: Vec<String>,
    descriptor: Descriptor,
    was_cached: bool,
    compiled_in: Duration,
}

/// What a component says of itself, as it says it: topics and options are not checked here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Descriptor {
    pub name: String,
    pub topics: Vec<String>,
    pub options: Vec<(String, String)>,
}

impl Component {
    pub fn path(&self) -> &Path {
        &self.facts.path
    }

    /// SHA-256 of the file, in hex.
    pub fn digest(&self) -> &str {
        &self.facts.digest
    }

    /// The file's size in bytes.
    pub fn n_bytes(&self) -> usize {
        self.facts.n_bytes
    }

    pub fn imports(&self) -> &[String] {
        &self.facts.imports
    }

    pub fn exports(&self) -> &[String] {
        &self.facts.exports
    }

    pub fn descriptor(&self) -> &Descriptor {
        &self.facts.descriptor
    }

    /// Whether it came from the compile cache.
    pub fn was_cached(&self) -> bool {
        self.facts.was_cached
    }

    /// How long it took to compile, or to load from the cache.
    pub fn compiled_in(&self) -> Duration {
        self.facts.compiled_in
    }
}

pub(super) async fn load(shared: &Arc<Shared>, path: &Path) -> Result<Component, LoadError> {
    let bytes = tokio::fs::read(path).await.map_err(|error| Problem::new(format!("cannot be read: {error}")).of(path))?;
    kind::check(&bytes).map_err(|problem| problem.of(path))?;
    let digest = hex(&Sha256::digest(&bytes));
    let n_bytes = bytes.len();
    let started_at = Instant::now();
    let (compiled, was_cached) = compile(shared.clone(), digest.clone(), bytes).await.map_err(|problem| problem.of(path))?;
    let compiled_in = started_at.elapsed();
    let problems = link::problems(&shared.wasm, &compiled);
    if !problems.is_empty() {
        return Err(LoadError { path: path.to_owned(), problems });
    }
    let pre = shared.linker.instantiate_pre(&compiled).and_then(EventHandlerPre::new).map_err(|error| {
        let mut problems = link::type_problems(&shared.wasm, &shared.linker, &compiled);
        if problems.is_empty() {
            problems.push(Problem::new(format!("does not fit the contract: {error:#}")));
        }
        LoadError { path: path.to_owned(), problems }
    })?;
    let descriptor = instance::describe(shared, &pre).await.map_err(|problem| problem.of(path))?;
    let facts = Facts {
        path: path.to_owned(),
        digest,
        n_bytes,
        imports: link::imports(&shared.wasm, &compiled),
        exports: link::exports(&shared.wasm, &compiled),
        descriptor,
        was_cached,
        compiled_in,
    };
    Ok(Component { shared: shared.clone(), pre, facts: Arc::new(facts) })
}

async fn compile(shared: Arc<Shared>, digest: String, bytes: Vec<u8>) -> Result<(WasmComponent, bool), Problem> {
    let compiling = tokio::task::spawn_blocking(move || {
        let cache = shared.options.cache.as_deref();
        if let Some(component) = cache.and_then(|folder| precompiled::load(&shared.wasm, folder, &digest)) {
            return Ok((component, true));
        }
        let component = WasmComponent::from_binary(&shared.wasm, &bytes).map_err(|error| kind::problem(&bytes, &error))?;
        if let Some(folder) = cache {
            precompiled::store(&shared.wasm, folder, &digest, &component);
        }
        Ok((component, false))
    });
    match compiling.await {
        Ok(compiled) => compiled,
        Err(error) => Err(Problem::new(format!("the compiler failed: {error}"))),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

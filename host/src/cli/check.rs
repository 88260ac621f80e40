//! `check`: what components are, what they need, and everything that is wrong with them. Opens no store.

use std::collections::BTreeMap;
use std::path::PathBuf;

use bytesize::ByteSize;
use clap::Args;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::exit::{CommandResult, Exit};
use super::output::{Form, Output, count, indented};
use super::{Context, components};
use crate::config::Config;
use crate::delivery::DEFAULT_TENANT;
use crate::engine::Engine;

/// Arguments of `check`.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[arg(required = true, value_name = "HANDLER.wasm|DIR")]
    paths: Vec<PathBuf>,
}

/// What is printed of a component. Without a descriptor there is no name.
#[derive(Default, Serialize)]
struct Checked {
    file: PathBuf,
    name: Option<String>,
    size: u64,
    /// SHA-256 of the file.
    digest: String,
    topics: Vec<String>,
    options: BTreeMap<String, String>,
    imports: Vec<String>,
    exports: Vec<String>,
    /// Everything that keeps it from being run.
    problems: Vec<String>,
}

pub(super) async fn run(arguments: Arguments, context: &mut Context) -> CommandResult {
    let engine = super::engine(&context.config)?;
    let (files, problems) = components::find(&arguments.paths);
    for problem in &problems {
        eprintln!("error: {problem}");
    }
    let mut is_refused = !problems.is_empty();
    for file in files {
        let checked = check(&engine, file, &context.config).await;
        is_refused |= !checked.problems.is_empty();
        match context.output.form() {
            Form::Json => context.output.object(&checked)?,
            Form::Text => print(&checked, &mut context.output)?,
        }
    }
    Ok(if is_refused { Exit::Refused } else { Exit::Done })
}

/// Everything about one file. What keeps it from being loaded is a problem, not an error.
async fn check(engine: &Engine, file: PathBuf, config: &Config) -> Checked {
    let mut checked = Checked { file, ..Checked::default() };
    match tokio::fs::read(&checked.file).await {
        Ok(bytes) => {
            checked.size = bytes.len() as u64;
            checked.digest = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        }
        Err(error) => {
            checked.problems.push(format!("cannot be read: {error}"));
            return checked;
        }
    }
    match engine.load(&checked.file).await {
        Ok(component) => {
            let descriptor = component.descriptor();
            checked.name = Some(descriptor.name.clone());
            checked.topics.clone_from(&descriptor.topics);
            checked.imports = component.imports().to_vec();
            checked.exports = component.exports().to_vec();
            checked.options = descriptor.options.iter().cloned().collect();
            if let Err(problems) = components::serve(component, DEFAULT_TENANT, config) {
                checked.problems = problems;
            }
        }
        Err(error) => checked.problems = error.problems.iter().map(ToString::to_string).collect(),
    }
    checked
}

fn print(checked: &Checked, output: &mut Output) -> std::io::Result<()> {
    let list = |items: &[String]| (!items.is_empty()).then(|| items.join(", "));
    let options: Vec<_> = checked.options.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    output.line(checked.file.display())?;
    output.fields(&[
        ("  handler", checked.name.clone()),
        ("  topics", list(&checked.topics)),
        ("  options", list(&options)),
        ("  size", Some(ByteSize(checked.size).to_string())),
        ("  sha256", (!checked.digest.is_empty()).then(|| checked.digest.clone())),
        ("  imports", list(&checked.imports)),
        ("  exports", list(&checked.exports)),
    ])?;
    match checked.problems.len() {
        0 => output.line("  can be run"),
        n => output.line(format_args!(
            "  cannot be run: {}\n{}",
            count(n as u64, "problem", "problems"),
            indented(&indented(&checked.problems.join("\n")))
        )),
    }
}

//! The arguments that describe one event, for the commands that make one.

use std::io::Read;
use std::path::PathBuf;

use bytes::Bytes;
use bytesize::ByteSize;
use clap::Args;

use super::exit::Failure;
use super::output;
use crate::delivery::{Header, NewEvent};
use crate::topic::Topic;

/// Where the payload comes from, and what travels with it.
#[derive(Debug, Args)]
pub(super) struct EventArguments {
    /// The payload, as text
    #[arg(long, value_name = "TEXT", group = "source")]
    data: Option<String>,
    /// The payload, from a file (`-` is stdin)
    #[arg(long, value_name = "FILE", group = "source")]
    file: Option<PathBuf>,
    /// Media type of the payload [default: application/json]
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,
    /// Events with the same key belong together
    #[arg(long)]
    key: Option<String>,
    /// A header; may be repeated
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = header)]
    headers: Vec<Header>,
}

impl EventArguments {
    /// Reads the payload and makes the event.
    pub(super) fn event(self, topic: Topic, tenant: String, max_payload_bytes: u64) -> Result<NewEvent, Failure> {
        let payload = read(self.data, self.file, max_payload_bytes)?;
        let content_type = self.content_type.unwrap_or_else(|| NewEvent::DEFAULT_CONTENT_TYPE.to_owned());
        if is_json(&content_type) && serde_json::from_slice::<&serde_json::value::RawValue>(&payload).is_err() {
            output::warn(format_args!(
                "the payload is no JSON, though its content type is `{content_type}`; `--content-type` names another"
            ));
        }
        Ok(NewEvent { tenant, content_type, key: self.key, headers: self.headers, ..NewEvent::new(topic, payload) })
    }
}

/// Whether a media type says that the payload is JSON: `application/json`, `application/problem+json`, with or without parameters.
pub(super) fn is_json(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence == "application/json" || essence == "text/json" || essence.ends_with("+json")
}

/// Why a payload of `n_bytes` is not taken.
pub(super) fn too_large(n_bytes: u64, max_payload_bytes: u64) -> String {
    format!("expected a payload of at most {} (`publish.max_payload`), got {n_bytes} bytes", ByteSize(max_payload_bytes))
}

fn read(data: Option<String>, file: Option<PathBuf>, max_payload_bytes: u64) -> Result<Bytes, Failure> {
    let cannot_read = |path: &PathBuf, error| Failure::refused(format!("`{}` cannot be read: {error}", path.display()));
    let mut payload = Vec::new();
    match (data, file) {
        (Some(text), _) => payload = text.into_bytes(),
        (None, Some(path)) if path.as_os_str() == "-" => {
            let mut stdin = std::io::stdin().lock().take(max_payload_bytes + 1);
            stdin.read_to_end(&mut payload).map_err(|error| cannot_read(&path, error))?;
        }
        (None, Some(path)) => {
            let file = std::fs::File::open(&path).map_err(|error| cannot_read(&path, error))?;
            let n_bytes = file.metadata().map_or(0, |metadata| metadata.len());
            if n_bytes > max_payload_bytes {
                return Err(Failure::refused(too_large(n_bytes, max_payload_bytes)));
            }
            file.take(max_payload_bytes + 1).read_to_end(&mut payload).map_err(|error| cannot_read(&path, error))?;
        }
        (None, None) => {}
    }
    let n_bytes = payload.len() as u64;
    if n_bytes > max_payload_bytes { Err(Failure::refused(too_large(n_bytes, max_payload_bytes))) } else { Ok(payload.into()) }
}

fn header(text: &str) -> Result<Header, String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok(Header { name: name.to_owned(), value: value.to_owned() }),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}

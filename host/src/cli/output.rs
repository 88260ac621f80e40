//! What a command prints on stdout: one JSON object a line with `--json`, else text for people.

use std::fmt::Display;
use std::io::{self, BufWriter, Stdout, Write};

use chrono::{DateTime, SecondsFormat, Utc};
use comfy_table::presets::NOTHING;
use comfy_table::{ContentArrangement, Table};
use serde::Serialize;

/// The form of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Text,
    Json,
}

/// Standard output. A reader that has gone away is an error, not a panic.
pub(super) struct Output {
    form: Form,
    stdout: BufWriter<Stdout>,
}

impl Output {
    pub(super) fn new(form: Form) -> Self {
        Self { form, stdout: BufWriter::new(io::stdout()) }
    }

    pub(super) const fn form(&self) -> Form {
        self.form
    }

    pub(super) fn line(&mut self, text: impl Display) -> io::Result<()> {
        writeln!(self.stdout, "{text}")
    }

    pub(super) fn object(&mut self, value: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut self.stdout, value)?;
        writeln!(self.stdout)
    }

    /// Aligned columns under `header`; only the header if there are no rows.
    pub(super) fn table(&mut self, header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> io::Result<()> {
        let mut table = Table::new();
        table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled).set_header(header.to_vec()).add_rows(rows);
        for column in table.column_iter_mut() {
            column.set_padding((0, 2));
        }
        self.line(table.trim_fmt())
    }

    /// Names and values, one pair a line, the values aligned. Pairs without a value are left out.
    pub(super) fn fields(&mut self, fields: &[(&str, Option<String>)]) -> io::Result<()> {
        let width = fields.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
        for (name, value) in fields {
            if let Some(value) = value {
                let value = value.replace('\n', &format!("\n{:width$}  ", ""));
                self.line(format_args!("{name:width$}  {value}"))?;
            }
        }
        Ok(())
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.stdout.flush()
    }
}

/// A point in time for people: RFC 3339 in UTC, to the second.
pub(super) fn time(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Secs, true)
}

/// `1 delivery`, `2 deliveries`.
pub(super) fn count(n: u64, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

/// Each line of `text`, moved in; blank ones are left out at the end, and stay blank elsewhere.
pub(super) fn indented(text: &str) -> String {
    let lines: Vec<_> = text.trim_end().lines().map(|line| if line.is_empty() { String::new() } else { format!("  {line}") }).collect();
    lines.join("\n")
}

/// Tells something on stderr that does not keep the command from going on.
pub(super) fn warn(text: impl Display) {
    eprintln!("warning: {text}");
}

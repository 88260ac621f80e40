//! What is wrong with a setting, and where it was written.

use std::fmt;
use std::path::PathBuf;

/// Where a value was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// In a file; without a line if it is about the file as a whole, or about a default that the file does not change.
    File { path: PathBuf, line: Option<usize> },
    /// In the options of a component's descriptor.
    Descriptor,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub origin: Origin,
    /// With its section, such as `dispatcher.poll_interval`; empty if it is about the file as a whole.
    pub key: String,
    /// What was expected, and what is there.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.origin {
            Origin::File { path, line: Some(line) } => write!(f, "{}:{line}: ", path.display())?,
            Origin::File { path, line: None } => write!(f, "{}: ", path.display())?,
            Origin::Descriptor => f.write_str("option ")?,
        }
        if !self.key.is_empty() {
            write!(f, "`{}`: ", self.key)?;
        }
        f.write_str(&self.message)
    }
}

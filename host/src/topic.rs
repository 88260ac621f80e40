//! Topics, and the patterns that subscriptions match them with.
//!
//! A topic is 1 to 16 tokens of `[A-Za-z0-9_-]{1,64}` joined by dots. In a pattern `*` stands for exactly one token, and `>`, which comes
//! last, for one or more. The stores match in their own language; a property test holds them to [`TopicPattern::matches`].

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The most tokens a topic or pattern may have.
pub const MAX_TOKENS: usize = 16;
/// The longest token, in bytes.
pub const MAX_TOKEN_BYTES: usize = 64;

/// Why a text is no topic, or no topic pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TopicError {
    #[error("expected 1 to {MAX_TOKENS} tokens joined by dots such as `order.created`, got an empty text")]
    Empty,
    #[error("expected at most {MAX_TOKENS} tokens, got {0}")]
    TooManyTokens(usize),
    #[error("token {position}: expected 1 to {MAX_TOKEN_BYTES} characters of `A-Z a-z 0-9 _ -`, got `{token}`")]
    InvalidToken { position: usize, token: String },
    #[error("token {0}: `>` stands for the rest of a topic, so it must come last")]
    RestNotLast(usize),
}

/// The name that an event is published to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Topic(String);

/// Which topics a handler subscribes to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TopicPattern(String);

impl Topic {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TopicPattern {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether `topic` is one of those that this pattern stands for.
    pub fn matches(&self, topic: &Topic) -> bool {
        let mut tokens = topic.0.split('.');
        for expected in self.0.split('.') {
            match (expected, tokens.next()) {
                (">", Some(_)) => return true,
                ("*", Some(_)) => {}
                (expected, Some(token)) if expected == token => {}
                _ => return false,
            }
        }
        tokens.next().is_none()
    }
}

fn check(text: &str, is_wildcard: impl Fn(&str) -> bool) -> Result<(), TopicError> {
    if text.is_empty() {
        return Err(TopicError::Empty);
    }
    let n_tokens = text.split('.').count();
    if n_tokens > MAX_TOKENS {
        return Err(TopicError::TooManyTokens(n_tokens));
    }
    for (index, token) in text.split('.').enumerate() {
        let position = index + 1;
        if is_wildcard(token) {
            if token == ">" && position != n_tokens {
                return Err(TopicError::RestNotLast(position));
            }
        } else if !(1..=MAX_TOKEN_BYTES).contains(&token.len())
            || !token.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
        {
            return Err(TopicError::InvalidToken { position, token: token.to_owned() });
        }
    }
    Ok(())
}

impl FromStr for Topic {
    type Err = TopicError;
    fn from_str(text: &str) -> Result<Self, TopicError> {
        check(text, |_| false)?;
        Ok(Self(text.to_owned()))
    }
}

impl FromStr for TopicPattern {
    type Err = TopicError;
    fn from_str(text: &str) -> Result<Self, TopicError> {
        check(text, |token| matches!(token, "*" | ">"))?;
        Ok(Self(text.to_owned()))
    }
}

macro_rules! text_conversions {
    ($name:ident) => {
        impl TryFrom<String> for $name {
            type Error = TopicError;
            fn try_from(text: String) -> Result<Self, TopicError> {
                text.parse()
            }
        }
        impl From<$name> for String {
            fn from(value: $name) -> String {
                value.0
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

text_conversions!(Topic);
text_conversions!(TopicPattern);

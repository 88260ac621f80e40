//! An event that is to be fanned out, whoever stored it.
//!
//! Nothing here talks to the server.

use std::time::Duration;

use bson::{Bson, Document, doc};
use uuid::Uuid;

use crate::delivery::{NewEvent, is_valid_name};
use crate::store::mongodb::documents::{LONGEST_DELAY, content_type, headers};
use crate::store::mongodb::fields::{Problem, optional_integer, optional_text, text, uuid};
use crate::topic::{Topic, TopicPattern};

/// See the module. Its fields are those of a sound event only after [`check`](Self::check).
pub(super) struct Subject {
    document: Document,
    pub(super) id: Uuid,
    pub(super) tenant: String,
    pub(super) topic: String,
    parsed_topic: Option<Topic>,
    pub(super) key: Option<String>,
    pub(super) published_at: bson::DateTime,
    pub(super) payload_bytes: i64,
    delay_ms: i64,
}

/// Everything but the payload, of which only the size is wanted; of a document, the size that it has here.
pub(super) fn fields() -> Document {
    let size = doc! {
        "$switch": {
            "branches": [
                { "case": { "$in": [{ "$type": "$payload" }, ["binData", "string"]] }, "then": { "$toLong": { "$binarySize": "$payload" } } },
                { "case": { "$eq": [{ "$type": "$payload" }, "object"] }, "then": { "$toLong": { "$bsonSize": "$payload" } } },
                { "case": { "$eq": [{ "$type": "$payload" }, "array"] }, "then": { "$toLong": { "$bsonSize": { "it": "$payload" } } } },
            ],
            "default": Bson::Null,
        },
    };
    doc! {
        "tenant": 1, "topic": 1, "key": 1, "contentType": 1, "headers": 1, "dedupId": 1, "delayMs": 1, "publishedAt": 1,
        "payloadBytes": size, "payloadType": { "$type": "$payload" },
    }
}

impl Subject {
    pub(super) fn new(document: Document) -> Self {
        Self {
            id: Uuid::nil(),
            tenant: String::new(),
            topic: String::new(),
            parsed_topic: None,
            key: None,
            published_at: bson::DateTime::MIN,
            payload_bytes: 0,
            delay_ms: 0,
            document,
        }
    }

    /// Stored by an application, and by no publisher of ours.
    pub(super) fn is_foreign(&self) -> bool {
        !self.document.contains_key("publishedAt")
    }

    pub(super) fn raw_id(&self) -> Bson {
        self.document.get("_id").cloned().unwrap_or(Bson::Null)
    }

    /// # Errors
    /// What is wrong with it, with its id.
    pub(super) fn check(mut self) -> Result<Self, Box<(Bson, Problem)>> {
        match self.read() {
            Ok(()) => Ok(self),
            Err(problem) => Err(Box::new((self.raw_id(), problem))),
        }
    }

    pub(super) fn topic_matches(&self, pattern: &TopicPattern) -> bool {
        self.parsed_topic.as_ref().is_some_and(|topic| pattern.matches(topic))
    }

    pub(super) fn due_at(&self) -> bson::DateTime {
        bson::DateTime::from_millis(self.published_at.timestamp_millis().saturating_add(self.delay_ms))
    }

    fn read(&mut self) -> Result<(), Problem> {
        let event = &self.document;
        self.id = uuid(event, "_id")?;
        self.tenant = text(event, "tenant")?;
        self.topic = text(event, "topic")?;
        self.key = optional_text(event, "key")?;
        let topic: Topic = self.topic.parse().map_err(|error| format!("topic: {error}"))?;
        if !is_valid_name(&self.tenant) {
            return Err(format!("tenant: expected 1 to 64 characters of `A-Z a-z 0-9 _ -`, got `{}`", self.tenant.escape_debug()));
        }
        let texts = NewEvent {
            key: self.key.clone(),
            content_type: content_type(event)?,
            headers: headers(event)?,
            dedup_id: optional_text(event, "dedupId")?,
            ..NewEvent::new(topic.clone(), "")
        };
        if let Some(problem) = texts.problem_of_texts() {
            return Err(problem);
        }
        self.parsed_topic = Some(topic);
        self.published_at =
            *event.get_datetime("publishedAt").map_err(|_| "publishedAt: expected a date that the host has set".to_owned())?;
        self.payload_bytes = optional_integer(event, "payloadBytes")?.ok_or_else(|| {
            let found = event.get_str("payloadType").unwrap_or("nothing");
            format!("payload: expected binary data, a text, a document or an array, got {found}")
        })?;
        let delay_ms = optional_integer(event, "delayMs")?.unwrap_or(0);
        let delay = u64::try_from(delay_ms).map_err(|_| format!("delayMs: expected a duration that is not negative, got `{delay_ms}`"))?;
        self.delay_ms = i64::try_from(Duration::from_millis(delay).min(LONGEST_DELAY).as_millis()).unwrap_or(i64::MAX);
        Ok(())
    }
}

//! Which handlers receive an event.
//!
//! Patterns are matched here and not in SQL, by the one implementation of the rules (`crate::topic`).

use sqlx::Row;
use sqlx::sqlite::SqliteConnection;

use crate::delivery::HandlerId;
use crate::topic::{Topic, TopicPattern};

/// The subscriptions of one tenant.
pub(super) struct Subscriptions {
    handlers: Vec<Subscriber>,
}

/// A handler that receives the events of some topics.
pub(super) struct Subscriber {
    pub(super) id: HandlerId,
    pub(super) name: String,
    patterns: Vec<TopicPattern>,
}

impl Subscriptions {
    /// A stored pattern that cannot be read is passed over and named in the log: it must not stop the events of others (R23).
    pub(super) async fn read(connection: &mut SqliteConnection, tenant: &str) -> sqlx::Result<Self> {
        let rows = sqlx::query(include_str!("sql/subscriptions_of_tenant.sql")).bind(tenant).fetch_all(connection).await?;
        let mut handlers: Vec<Subscriber> = Vec::new();
        for row in rows {
            let id = HandlerId(row.try_get("handler_id")?);
            let name: String = row.try_get("name")?;
            let text: String = row.try_get("pattern")?;
            let pattern = match text.parse::<TopicPattern>() {
                Ok(pattern) => pattern,
                Err(error) => {
                    tracing::warn!(tenant, handler = name, pattern = text, %error, "a stored topic pattern is passed over");
                    continue;
                }
            };
            match handlers.last_mut() {
                Some(last) if last.id == id => last.patterns.push(pattern),
                Some(_) | None => handlers.push(Subscriber { id, name, patterns: vec![pattern] }),
            }
        }
        Ok(Self { handlers })
    }

    /// Each handler once, however many of its patterns match (P1).
    pub(super) fn of<'a>(&'a self, topic: &'a Topic) -> impl Iterator<Item = &'a Subscriber> {
        self.handlers.iter().filter(move |handler| handler.patterns.iter().any(|pattern| pattern.matches(topic)))
    }
}

//! `relaybus:handler/publisher`: events that are stored together with the completion of the run, or not at all (R16).

use std::time::Duration;

use wasmtime::component::Resource;

use super::context::milliseconds;
use super::relaybus::handler::publisher::{Host, HostEvent, PublishError};
use crate::delivery::{EventId, Header, NewEvent};
use crate::engine::instance::RunState;

/// An event that a guest puts together; `None` inside once it was published.
#[expect(unreachable_pub, reason = "the generated bindings re-export it")]
pub struct EventDraft(Option<Draft>);

struct Draft {
    topic: String,
    payload: Vec<u8>,
    content_type: Option<String>,
    key: Option<String>,
    headers: Vec<Header>,
    delay: Duration,
    dedup_id: Option<String>,
}

impl RunState {
    fn change_draft(&mut self, this: &Resource<EventDraft>, change: impl FnOnce(&mut Draft)) -> wasmtime::Result<()> {
        self.look_at_the_clock()?;
        // Changing an event that was published changes nothing: it is the host's by then.
        if let EventDraft(Some(draft)) = self.table.get_mut(this)? {
            change(draft);
        }
        Ok(())
    }
}

impl HostEvent for RunState {
    fn new(&mut self, topic: String, payload: Vec<u8>) -> wasmtime::Result<Resource<EventDraft>> {
        self.look_at_the_clock()?;
        let draft = Draft { topic, payload, content_type: None, key: None, headers: Vec::new(), delay: Duration::ZERO, dedup_id: None };
        Ok(self.table.push(EventDraft(Some(draft)))?)
    }

    fn set_content_type(&mut self, this: Resource<EventDraft>, value: String) -> wasmtime::Result<()> {
        self.change_draft(&this, |draft| draft.content_type = Some(value))
    }

    fn set_key(&mut self, this: Resource<EventDraft>, value: String) -> wasmtime::Result<()> {
        self.change_draft(&this, |draft| draft.key = Some(value))
    }

    fn add_header(&mut self, this: Resource<EventDraft>, name: String, value: String) -> wasmtime::Result<()> {
        self.change_draft(&this, |draft| draft.headers.push(Header { name, value }))
    }

    fn set_delay_ms(&mut self, this: Resource<EventDraft>, value: f64) -> wasmtime::Result<()> {
        self.change_draft(&this, |draft| draft.delay = milliseconds(value))
    }

    fn set_dedup_id(&mut self, this: Resource<EventDraft>, value: String) -> wasmtime::Result<()> {
        self.change_draft(&this, |draft| draft.dedup_id = Some(value))
    }

    fn drop(&mut self, this: Resource<EventDraft>) -> wasmtime::Result<()> {
        self.table.delete(this)?;
        Ok(())
    }
}

impl Host for RunState {
    fn publish(&mut self, event: Resource<EventDraft>) -> wasmtime::Result<Result<String, PublishError>> {
        self.look_at_the_clock()?;
        let EventDraft(slot) = self.table.get_mut(&event)?;
        let Some(run) = &mut self.run else {
            return Ok(refuse("not-granted", "a component that describes itself may not publish"));
        };
        let Some(draft) = slot.as_ref() else {
            return Ok(refuse("already-published", "this event was published before; make a new one"));
        };
        let topic = match draft.topic.parse() {
            Ok(topic) => topic,
            Err(error) => return Ok(refuse("invalid-topic", format!("`{}`: {error}", draft.topic))),
        };
        let limits = &run.limits;
        if draft.payload.len() as u64 > limits.payload_bytes {
            let message = format!("expected a payload of at most {} bytes, got {}", limits.payload_bytes, draft.payload.len());
            return Ok(refuse("payload-too-large", message));
        }
        if run.events.len() >= limits.published_events as usize {
            let message = format!("expected at most {} events in one run", limits.published_events);
            return Ok(refuse("too-many-events", message));
        }
        let Some(draft) = slot.take() else { unreachable!("looked at above") };
        let id = EventId::new();
        run.events.push(NewEvent {
            id,
            tenant: run.tenant.clone(),
            topic,
            key: draft.key,
            content_type: draft.content_type.unwrap_or_else(|| NewEvent::DEFAULT_CONTENT_TYPE.to_owned()),
            headers: draft.headers,
            payload: draft.payload.into(),
            delay: draft.delay,
            dedup_id: draft.dedup_id,
        });
        Ok(Ok(id.to_string()))
    }
}

fn refuse(code: &str, message: impl Into<String>) -> Result<String, PublishError> {
    Err(PublishError { code: code.to_owned(), message: message.into() })
}

//! `relaybus:handler/publisher`: events that are stored together with the completion of the run, or not at all (R16).
//!
//! What the host holds of them counts against the run's memory, and no event leaves here that a store would refuse.

use std::time::Duration;

use wasmtime::component::Resource;

use super::context::milliseconds;
use super::relaybus::handler::publisher::{Host, HostEvent, PublishError};
use crate::delivery::{EventId, Header, NewEvent};
use crate::engine::instance::{Granted, RunState};

/// An event that a guest puts together; `None` inside once it was published.
#[expect(unreachable_pub, reason = "the generated bindings re-export it")]
pub struct EventDraft(Option<Draft>);

struct Draft {
    topic: String,
    /// Empty where it is larger than the run may publish.
    payload: Vec<u8>,
    n_payload_bytes: u64,
    content_type: Option<String>,
    key: Option<String>,
    headers: Vec<Header>,
    n_header_bytes: usize,
    delay: Duration,
    dedup_id: Option<String>,
}

impl Draft {
    fn new(topic: String, payload: Vec<u8>, max_payload_bytes: u64) -> Self {
        let n_payload_bytes = payload.len() as u64;
        Self {
            topic,
            payload: if n_payload_bytes > max_payload_bytes { Vec::new() } else { payload },
            n_payload_bytes,
            content_type: None,
            key: None,
            headers: Vec::new(),
            n_header_bytes: 0,
            delay: Duration::ZERO,
            dedup_id: None,
        }
    }

    fn add_header(&mut self, name: String, value: String) {
        self.n_header_bytes += name.len() + value.len() + size_of::<Header>();
        self.headers.push(Header { name, value });
    }

    /// What the host holds.
    fn n_bytes(&self) -> usize {
        let texts = [&self.content_type, &self.key, &self.dedup_id];
        self.topic.len() + self.payload.len() + self.n_header_bytes + texts.into_iter().flatten().map(String::len).sum::<usize>()
    }

    /// The event, if it can be published.
    fn event(&self, run: &Granted) -> Result<NewEvent, PublishError> {
        let topic = self.topic.parse().map_err(|error| refusal("invalid-topic", format!("`{}`: {error}", self.topic.escape_debug())))?;
        let max_bytes = run.limits.payload_bytes;
        if self.n_payload_bytes > max_bytes {
            let message = format!("expected a payload of at most {max_bytes} bytes, got {}", self.n_payload_bytes);
            return Err(refusal("payload-too-large", message));
        }
        if run.events.len() >= run.limits.published_events as usize {
            let message = format!("expected at most {} events in one run", run.limits.published_events);
            return Err(refusal("too-many-events", message));
        }
        let event = NewEvent {
            id: EventId::new(),
            tenant: run.tenant.clone(),
            topic,
            key: self.key.clone(),
            content_type: self.content_type.clone().unwrap_or_else(|| NewEvent::DEFAULT_CONTENT_TYPE.to_owned()),
            headers: self.headers.clone(),
            payload: bytes::Bytes::new(),
            delay: self.delay,
            dedup_id: self.dedup_id.clone(),
        };
        match event.problem_of_texts() {
            Some(problem) => Err(refusal("invalid-event", problem)),
            None => Ok(event),
        }
    }
}

impl RunState {
    fn change_draft(&mut self, this: &Resource<EventDraft>, change: impl FnOnce(&mut Draft)) -> wasmtime::Result<()> {
        self.look_at_the_clock()?;
        // Changing an event that was published changes nothing: it is the host's by then.
        let EventDraft(Some(draft)) = self.table.get_mut(this)? else { return Ok(()) };
        let n_before = draft.n_bytes();
        change(draft);
        self.limiter.hold(n_before, draft.n_bytes())
    }
}

impl HostEvent for RunState {
    fn new(&mut self, topic: String, payload: Vec<u8>) -> wasmtime::Result<Resource<EventDraft>> {
        self.look_at_the_clock()?;
        let max_payload_bytes = self.run.as_ref().map_or(0, |run| run.limits.payload_bytes);
        let draft = Draft::new(topic, payload, max_payload_bytes);
        self.limiter.hold(0, draft.n_bytes())?;
        Ok(self.table.push(EventDraft(Some(draft)))?)
    }

    fn set_content_type(&mut self, this: Resource<EventDraft>, value: String) -> wasmtime::Result<()> {
        self.change_draft(&this, |draft| draft.content_type = Some(value))
    }

    fn set_key(&mut self, this: Resource<EventDraft>, value: String) -> wasmtime::Result<()> {
        self.change_draft(&this, |draft| draft.key = Some(value))
    }

    fn add_header(&mut self, this: Resource<EventDraft>, name: String, value: String) -> wasmtime::Result<()> {
        self.change_draft(&this, |draft| draft.add_header(name, value))
    }

    fn set_delay_ms(&mut self, this: Resource<EventDraft>, value: f64) -> wasmtime::Result<()> {
        self.change_draft(&this, |draft| draft.delay = milliseconds(value))
    }

    fn set_dedup_id(&mut self, this: Resource<EventDraft>, value: String) -> wasmtime::Result<()> {
        self.change_draft(&this, |draft| draft.dedup_id = Some(value))
    }

    fn drop(&mut self, this: Resource<EventDraft>) -> wasmtime::Result<()> {
        match self.table.delete(this)? {
            EventDraft(Some(draft)) => self.limiter.hold(draft.n_bytes(), 0),
            // It is held on, among the events of the run.
            EventDraft(None) => Ok(()),
        }
    }
}

impl Host for RunState {
    fn publish(&mut self, event: Resource<EventDraft>) -> wasmtime::Result<Result<String, PublishError>> {
        self.look_at_the_clock()?;
        let EventDraft(slot) = self.table.get_mut(&event)?;
        let Some(run) = &mut self.run else {
            return Ok(Err(refusal("not-granted", "a component that describes itself may not publish")));
        };
        let Some(draft) = slot else {
            return Ok(Err(refusal("already-published", "this event was published before; make a new one")));
        };
        let mut event = match draft.event(run) {
            Ok(event) => event,
            Err(refusal) => return Ok(Err(refusal)),
        };
        event.payload = std::mem::take(&mut draft.payload).into();
        *slot = None;
        let id = event.id.to_string();
        run.events.push(event);
        Ok(Ok(id))
    }
}

fn refusal(code: &str, message: impl Into<String>) -> PublishError {
    PublishError { code: code.to_owned(), message: message.into() }
}

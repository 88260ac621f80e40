//! `relaybus:handler/types`: the delivery that the guest handles.

use wasmtime::component::Resource;

use super::relaybus::handler::types::{Entry, Host, HostDelivery};
use crate::engine::instance::{DeliveryHandle, RunState};

impl Host for RunState {}

impl HostDelivery for RunState {
    fn id(&mut self, this: Resource<DeliveryHandle>) -> wasmtime::Result<String> {
        Ok(self.delivery(&this)?.id.to_string())
    }

    fn event_id(&mut self, this: Resource<DeliveryHandle>) -> wasmtime::Result<String> {
        Ok(self.delivery(&this)?.event_id.to_string())
    }

    fn topic(&mut self, this: Resource<DeliveryHandle>) -> wasmtime::Result<String> {
        Ok(self.delivery(&this)?.topic.to_string())
    }

    fn key(&mut self, this: Resource<DeliveryHandle>) -> wasmtime::Result<Option<String>> {
        Ok(self.delivery(&this)?.key.clone())
    }

    fn attempt(&mut self, this: Resource<DeliveryHandle>) -> wasmtime::Result<u32> {
        Ok(self.delivery(&this)?.attempt)
    }

    fn max_attempts(&mut self, this: Resource<DeliveryHandle>) -> wasmtime::Result<u32> {
        Ok(self.delivery(&this)?.max_attempts)
    }

    fn published_at(&mut self, this: Resource<DeliveryHandle>) -> wasmtime::Result<String> {
        Ok(self.delivery(&this)?.published_at.to_rfc3339_opts(chrono::SecondsFormat::Micros, true))
    }

    fn content_type(&mut self, this: Resource<DeliveryHandle>) -> wasmtime::Result<String> {
        Ok(self.delivery(&this)?.content_type.clone())
    }

    fn payload(&mut self, this: Resource<DeliveryHandle>) -> wasmtime::Result<Vec<u8>> {
        Ok(self.delivery(&this)?.payload.to_vec())
    }

    fn header(&mut self, this: Resource<DeliveryHandle>, name: String) -> wasmtime::Result<Option<String>> {
        let headers = &self.delivery(&this)?.headers;
        Ok(headers.iter().find(|header| header.name.eq_ignore_ascii_case(&name)).map(|header| header.value.clone()))
    }

    fn headers(&mut self, this: Resource<DeliveryHandle>) -> wasmtime::Result<Vec<Entry>> {
        let headers = &self.delivery(&this)?.headers;
        Ok(headers.iter().map(|header| Entry { name: header.name.clone(), value: header.value.clone() }).collect())
    }

    fn drop(&mut self, _: Resource<DeliveryHandle>) -> wasmtime::Result<()> {
        // The delivery lives as long as its run.
        Ok(())
    }
}

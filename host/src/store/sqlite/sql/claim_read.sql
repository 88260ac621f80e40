-- Purpose: the deliveries of the JSON array ?1 with their events, in its order. Index: primary keys. Locks: none beyond the caller's.
select
    delivery.id, delivery.handler_id, delivery.event_id, delivery.attempts, delivery.crashes, delivery.snoozes,
    handler.max_attempts,
    event.id is not null as has_event, event.topic, event.key, event.published_at, event.content_type, event.headers, event.payload
from json_each(?1) as taken
cross join relaybus_deliveries as delivery on delivery.id = unhex(taken.value)
left join relaybus_handlers as handler on handler.id = delivery.handler_id
left join relaybus_events as event on event.id = delivery.event_id
order by taken.key;

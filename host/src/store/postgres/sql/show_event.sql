-- Purpose: the event of the delivery $1. Index: primary keys. Locks: none.
select event.content_type, event.headers, event.payload
from relaybus.deliveries as delivery
join relaybus.events as event on event.id = delivery.event_id
where delivery.id = $1;

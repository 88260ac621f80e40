-- Purpose: the event of delivery ?1. Index: primary keys. Locks: none.
select event.content_type, event.headers, event.payload
from relaybus_deliveries as delivery
join relaybus_events as event on event.id = delivery.event_id
where delivery.id = ?1;

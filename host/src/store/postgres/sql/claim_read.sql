-- Purpose: the deliveries $1 that the token $2 holds, with their events, in the order of $1. Index: primary keys. Locks: none.
-- Token and status are compared as no index can, for the reason that `extend_leases.sql` gives.
select
    delivery.id, delivery.event_id, delivery.handler_id, delivery.topic, delivery.key, delivery.attempts, delivery.crashes, delivery.snoozes,
    handler.max_attempts, event.id is not null as has_event, event.published_at, event.content_type, event.headers, event.payload
from unnest($1::uuid[]) with ordinality as taken (id, place)
join relaybus.deliveries as delivery on delivery.id = taken.id
join relaybus.handlers as handler on handler.id = delivery.handler_id
left join relaybus.events as event on event.id = delivery.event_id
where delivery.lease_token is not distinct from $2 and delivery.status is not distinct from 'processing'
order by taken.place;

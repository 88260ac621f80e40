-- Purpose: create the deliveries of new events, one per place of the arrays, due $8 microseconds after $9,
-- when they were published. Index: primary key. Locks: the new
-- rows.
insert into relaybus.deliveries (id, event_id, handler_id, tenant, topic, key, payload_bytes, status, due_at, ready_at)
select
    delivery.id, delivery.event_id, delivery.handler_id, delivery.tenant, delivery.topic, delivery.key, delivery.payload_bytes, 'pending',
    $9 + delivery.delay_us * interval '1 microsecond',
    $9 + delivery.delay_us * interval '1 microsecond'
from unnest($1::uuid[], $2::uuid[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::bigint[])
    as delivery (id, event_id, handler_id, tenant, topic, key, payload_bytes, delay_us)
on conflict do nothing;

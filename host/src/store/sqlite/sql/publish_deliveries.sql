-- Purpose: fan out: one pending delivery for each element of the JSON array ?1. Index: primary key. Locks: the file's write lock.
insert into relaybus_deliveries (id, event_id, handler_id, tenant, topic, key, payload_bytes, status, due_at, ready_at)
select
    unhex(delivery.value ->> 'id'),
    unhex(delivery.value ->> 'event_id'),
    delivery.value ->> 'handler_id',
    delivery.value ->> 'tenant',
    delivery.value ->> 'topic',
    delivery.value ->> 'key',
    delivery.value ->> 'payload_bytes',
    'pending',
    delivery.value ->> 'due_at',
    delivery.value ->> 'due_at'
from json_each(?1) as delivery
where true
on conflict do nothing;

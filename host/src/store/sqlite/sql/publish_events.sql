-- Purpose: store the events of the JSON array ?1, each with its slice of the payloads ?2, at time ?3; answers the ids of those that were new.
-- Index: primary key and dedup, to pass over what is there already. Locks: the file's write lock.
insert into relaybus_events (id, tenant, topic, key, content_type, headers, dedup_id, n_deliveries, published_at, payload)
select
    unhex(event.value ->> 'id'),
    event.value ->> 'tenant',
    event.value ->> 'topic',
    event.value ->> 'key',
    event.value ->> 'content_type',
    event.value ->> 'headers',
    event.value ->> 'dedup_id',
    event.value ->> 'n_deliveries',
    ?3,
    coalesce(substr(?2, event.value ->> 'payload_start', event.value ->> 'payload_bytes'), x'') -- the slice of an empty blob is null
from json_each(?1) as event
where true
on conflict do nothing
returning id;

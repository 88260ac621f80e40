-- Purpose: store events, one per place of the arrays; answers the ids of those that were not there, by id or dedup id. Index: primary key and
-- dedup. Locks: the new rows; it waits for another publisher of the same id or dedup id.
insert into relaybus.events (id, tenant, topic, key, content_type, headers, dedup_id, n_deliveries, published_at, payload)
select event.id, event.tenant, event.topic, event.key, event.content_type, event.headers, event.dedup_id, event.n_deliveries, statement_timestamp(), event.payload
from unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bigint[], $9::bytea[])
    as event (id, tenant, topic, key, content_type, headers, dedup_id, n_deliveries, payload)
on conflict do nothing
returning id, published_at;

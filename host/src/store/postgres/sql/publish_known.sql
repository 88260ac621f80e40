-- Purpose: the stored events with the ids $1, or with the tenants $2, topics $3 and dedup ids $4, per place. Index: primary key and dedup.
-- Locks: none.
select sought.place, event.id, event.n_deliveries
from unnest($1::uuid[], $2::text[], $3::text[], $4::text[]) with ordinality as sought (id, tenant, topic, dedup_id, place)
cross join lateral (
    select known.id, known.n_deliveries, 1 as rank from relaybus.events as known where known.id = sought.id
    union all
    select known.id, known.n_deliveries, 2 from relaybus.events as known
    where known.tenant = sought.tenant and known.topic = sought.topic and known.dedup_id = sought.dedup_id
    order by rank
    limit 1
) as event;

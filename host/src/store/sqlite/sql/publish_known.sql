-- Purpose: what became of the events of the JSON array ?1 earlier: the same id first, else the same dedup id.
-- Index: primary key, then dedup. Locks: the file's write lock.
select
    sought.key as position,
    coalesce(same.id, first.id) as id,
    coalesce(same.n_deliveries, first.n_deliveries) as n_deliveries,
    same.id is null as is_duplicate
from json_each(?1) as sought
left join relaybus_events as same on same.id = unhex(sought.value ->> 'id')
left join relaybus_events as first
    on first.tenant = sought.value ->> 'tenant'
    and first.topic = sought.value ->> 'topic'
    and first.dedup_id = sought.value ->> 'dedup_id'
where coalesce(same.id, first.id) is not null;

-- Purpose: the first ?4 deliveries of the handlers in the JSON array ?1 that are due at ?2 and must run alone, without those of ?3.
-- Index: isolated, one range per handler; nearly always empty. Locks: the file's write lock.
select
    delivery.id, delivery.handler_id, delivery.tenant, false as is_expired, delivery.attempts, delivery.crashes, delivery.due_at,
    delivery.payload_bytes, delivery.worker, delivery.claimed_at
from json_each(?1) as wanted
cross join relaybus_deliveries as delivery
where delivery.handler_id = wanted.value
    and delivery.status = 'pending'
    and delivery.crashes >= 2
    and delivery.due_at <= ?2
    and delivery.id not in (select unhex(excluded.value) from json_each(?3) as excluded)
order by delivery.due_at
limit ?4;

-- Purpose: the first ?4 deliveries of handler ?1 that are due at ?2, without those of the JSON array ?3 and those that must run alone.
-- Index: due, one range. Locks: the file's write lock, so that what is read here is still true when it is leased.
select id, tenant, status = 'processing' as is_expired, attempts, crashes, due_at, payload_bytes, worker, claimed_at
from relaybus_deliveries
where handler_id = ?1
    and due_at <= ?2
    and not (status = 'pending' and crashes >= 2)
    and id not in (select unhex(excluded.value) from json_each(?3) as excluded)
order by due_at
limit ?4;

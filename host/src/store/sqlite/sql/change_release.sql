-- Purpose: make the deliveries of the JSON array ?1 due at ?2, those in flight with their attempt given back. Index: primary key.
-- Locks: the file's write lock, under which their status was read.
update relaybus_deliveries
set attempts = iif(status = 'processing', max(attempts - 1, 0), attempts),
    status = 'pending',
    due_at = ?2,
    ready_at = ?2,
    lease_token = null,
    settle_verb = null
where id in (select unhex(named.value) from json_each(?1) as named);

-- Purpose: bury at most ?3 unfinished deliveries of handler ?1 at ?2 by hand. Index: due, one range. Locks: the file's write lock.
update relaybus_deliveries
set status = 'buried', due_at = null, settled_at = ?2, lease_token = null, settle_verb = null, reason = 'operator'
where id in (
    select unfinished.id from relaybus_deliveries as unfinished
    where unfinished.handler_id = ?1 and unfinished.due_at is not null
    limit ?3
);

-- Purpose: bury the deliveries of the JSON array ?1 at ?2 by hand. Index: primary key. Locks: the file's write lock, under which their
-- status was read.
update relaybus_deliveries
set status = 'buried', due_at = null, settled_at = ?2, lease_token = null, settle_verb = null, reason = 'operator'
where id in (select unhex(named.value) from json_each(?1) as named);

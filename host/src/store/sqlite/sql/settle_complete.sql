-- Purpose: complete the deliveries of the JSON array ?1 (id) at ?2. Index: primary key. Locks: the file's write lock, under which the
-- tokens were compared.
update relaybus_deliveries
set status = 'completed', due_at = null, settled_at = ?2, settle_verb = 'complete'
where id in (select unhex(done.value ->> 'id') from json_each(?1) as done);

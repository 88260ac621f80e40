-- Purpose: bury the deliveries of the JSON array ?1 (id, reason) at ?2; an expired lease counts as a crash. Index: primary key.
-- Locks: the file's write lock, under which the rows were read as due.
update relaybus_deliveries
set crashes = crashes + (status = 'processing'),
    status = 'buried',
    due_at = null,
    lease_token = null,
    settle_verb = null,
    settled_at = ?2,
    reason = dead.value ->> 'reason'
from json_each(?1) as dead
where relaybus_deliveries.id = unhex(dead.value ->> 'id');

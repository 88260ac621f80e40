-- Purpose: bury the deliveries of the JSON array ?1 (id, reason) at ?2. Index: primary key. Locks: the file's write lock, under which the
-- tokens were compared.
update relaybus_deliveries
set status = 'buried',
    due_at = null,
    settled_at = ?2,
    reason = coalesce(dead.value ->> 'reason', relaybus_deliveries.reason),
    settle_verb = 'bury'
from json_each(?1) as dead
where relaybus_deliveries.id = unhex(dead.value ->> 'id');

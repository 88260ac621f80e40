-- Purpose: move the lease end of those deliveries of the JSON array ?1 (id, token) that are still held to ?2; answers which those are.
-- Index: primary key; the entry in `due` moves. Locks: the file's write lock.
update relaybus_deliveries
set due_at = ?2
from json_each(?1) as held
where relaybus_deliveries.id = unhex(held.value ->> 'id')
    and relaybus_deliveries.lease_token = unhex(held.value ->> 'token')
    and relaybus_deliveries.status = 'processing'
returning relaybus_deliveries.id;

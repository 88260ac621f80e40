-- Purpose: put the deliveries of the JSON array ?1 (id, due time) back to pending with one crash more, to run alone later.
-- Index: primary key. Locks: the file's write lock, under which the rows were read as expired.
update relaybus_deliveries
set status = 'pending',
    crashes = crashes + 1,
    due_at = isolated.value ->> 'due_at',
    ready_at = isolated.value ->> 'due_at',
    lease_token = null,
    settle_verb = null
from json_each(?1) as isolated
where relaybus_deliveries.id = unhex(isolated.value ->> 'id');

-- Purpose: lease the deliveries of the JSON array ?1 (id, lease end) to worker ?3 under token ?2 at ?4; an expired lease counts as a crash.
-- Index: primary key. Locks: the file's write lock, under which the rows were read as due.
update relaybus_deliveries
set status = 'processing',
    attempts = attempts + 1,
    crashes = crashes + (status = 'processing'),
    due_at = taken.value ->> 'lease_end',
    lease_token = ?2,
    settle_verb = null,
    worker = ?3,
    claimed_at = ?4
from json_each(?1) as taken
where relaybus_deliveries.id = unhex(taken.value ->> 'id');

-- Purpose: give the deliveries of the JSON array ?1 (id, due time or none, reason) back with their attempt; without a due time at the one
-- they were claimed at. Index: primary key. Locks: the file's write lock, under which the tokens were compared.
update relaybus_deliveries
set status = 'pending',
    due_at = coalesce(freed.value ->> 'due_at', ready_at),
    ready_at = coalesce(freed.value ->> 'due_at', ready_at),
    attempts = max(attempts - 1, 0),
    reason = coalesce(freed.value ->> 'reason', relaybus_deliveries.reason),
    settle_verb = 'release'
from json_each(?1) as freed
where relaybus_deliveries.id = unhex(freed.value ->> 'id');

-- Purpose: make the deliveries of the JSON array ?1 (id, due time, whether snoozed, reason) pending again. A snooze gives the attempt back;
-- another failure ends the row of snoozes. Index: primary key. Locks: the file's write lock, under which the tokens were compared.
update relaybus_deliveries
set status = 'pending',
    due_at = tried.value ->> 'due_at',
    ready_at = tried.value ->> 'due_at',
    attempts = iif(tried.value ->> 'is_snoozed', max(attempts - 1, 0), attempts),
    snoozes = iif(tried.value ->> 'is_snoozed', snoozes + 1, 0),
    reason = coalesce(tried.value ->> 'reason', relaybus_deliveries.reason),
    settle_verb = 'reschedule'
from json_each(?1) as tried
where relaybus_deliveries.id = unhex(tried.value ->> 'id');

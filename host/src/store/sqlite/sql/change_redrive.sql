-- Purpose: put the buried deliveries of the JSON array ?1 back to pending, due at ?2, as if they were new; the reason is again that of the
-- last failed run. Index: primary key. Locks: the file's write lock, under which their status was read.
update relaybus_deliveries
set status = 'pending',
    attempts = 0,
    crashes = 0,
    snoozes = 0,
    due_at = ?2,
    ready_at = ?2,
    settled_at = null,
    lease_token = null,
    settle_verb = null,
    reason = (
        select record.reason from relaybus_attempt_records as record
        where record.delivery_id = relaybus_deliveries.id
        order by record.n desc
        limit 1
    )
where id in (select unhex(named.value) from json_each(?1) as named);

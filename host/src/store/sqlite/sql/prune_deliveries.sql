-- Purpose: delete at most ?3 deliveries of status ?1 that were settled at ?2 or before; answers them with their events.
-- Index: settled, one range. Locks: the file's write lock.
delete from relaybus_deliveries
where id in (
    select old.id from relaybus_deliveries as old
    where old.status = ?1 and old.settled_at <= ?2
    order by old.settled_at
    limit ?3
)
returning id, event_id;

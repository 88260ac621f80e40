-- Purpose: delete at most ?2 events that fanned out to nothing, published at ?1 or before. Index: without_deliveries, one range.
-- Locks: the file's write lock.
delete from relaybus_events
where id in (
    select old.id from relaybus_events as old
    where old.n_deliveries = 0 and old.published_at <= ?1
    order by old.published_at
    limit ?2
);

-- Purpose: delete at most $2 events that fanned out to nothing, published $1 microseconds ago or before. Index: without_deliveries, one range.
-- Locks: the rows; what others hold is skipped.
delete from relaybus.events
where id in (
    select old.id from relaybus.events as old
    where old.n_deliveries = 0 and old.published_at <= statement_timestamp() - $1 * interval '1 microsecond'
    order by old.published_at
    limit $2
    for update skip locked
);

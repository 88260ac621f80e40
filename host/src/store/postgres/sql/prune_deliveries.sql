-- Purpose: delete at most $3 deliveries of status $1 that were settled $2 microseconds ago or before, their attempt records, and the events
-- that they were the last of. Index: settled, one range. Locks: the rows; what others hold is skipped.
with old as materialized (
    select delivery.id, delivery.event_id
    from relaybus.deliveries as delivery
    where delivery.status = $1 and delivery.settled_at <= statement_timestamp() - $2 * interval '1 microsecond'
    order by delivery.settled_at
    limit $3
    for update skip locked
),
gone as (
    delete from relaybus.deliveries where id in (select old.id from old) returning id
),
records as (
    delete from relaybus.attempt_records where delivery_id in (select old.id from old)
),
orphans as (
    delete from relaybus.events as event
    where event.id in (select old.event_id from old)
        and not exists (
            select from relaybus.deliveries as other where other.event_id = event.id and other.id not in (select old.id from old)
        )
    returning event.id
)
select (select count(*) from gone) as n_deliveries, (select count(*) from orphans) as n_events;

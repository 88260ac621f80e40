-- Purpose: how many deliveries of the handlers in the JSON array ?1 are unfinished, and how many of these in flight.
-- Index: due and leased, both without reading a row. Locks: none.
select
    (
        select count(*) from relaybus_deliveries
        where due_at is not null and handler_id in (select wanted.value from json_each(?1) as wanted)
    ) as n_unfinished,
    (
        select count(*) from relaybus_deliveries
        where status = 'processing' and handler_id in (select wanted.value from json_each(?1) as wanted)
    ) as n_processing;

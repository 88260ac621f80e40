-- Purpose: append the attempt records of the JSON array $1, one per delivery at most, and keep the latest $2 of each. Index: primary key.
-- Locks: the new rows; the caller holds the deliveries'.
with added as materialized (
    select
        record.*,
        coalesce((select max(kept.n) from relaybus.attempt_records as kept where kept.delivery_id = record.delivery_id), 0) as n_before
    from jsonb_to_recordset($1) as record (
        delivery_id uuid, tenant text, attempt bigint, worker text, ran_for_us bigint, reason text, message text, output text
    )
),
trimmed as (
    delete from relaybus.attempt_records as old
    using added
    where old.delivery_id = added.delivery_id and old.n <= added.n_before + 1 - $2
)
insert into relaybus.attempt_records (delivery_id, n, tenant, attempt, worker, started_at, ended_at, reason, message, output)
select
    delivery_id, n_before + 1, tenant, attempt, worker,
    statement_timestamp() - ran_for_us * interval '1 microsecond', statement_timestamp(), reason, message, output
from added;

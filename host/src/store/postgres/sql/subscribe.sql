-- Purpose: store a handler; answers its id, and the digest before if it was there and not removed. Index: tenant and name. Locks: its row.
with before as (
    select handler.digest from relaybus.handlers as handler where handler.tenant = $1 and handler.name = $2 and handler.removed_at is null
)
insert into relaybus.handlers (tenant, name, digest, max_attempts, max_crashes, subscribed_at)
values ($1, $2, $3, $4, $5, statement_timestamp())
on conflict (tenant, name) do update
set digest = excluded.digest,
    max_attempts = excluded.max_attempts,
    max_crashes = excluded.max_crashes,
    subscribed_at = excluded.subscribed_at,
    removed_at = null
returning id, (select before.digest from before) as previous_digest;

-- Purpose: store a handler, or replace its digest and limits; its id stays. Index: unique (tenant, name). Locks: the file's write lock.
insert into relaybus_handlers (tenant, name, digest, max_attempts, max_crashes, subscribed_at)
values (?1, ?2, ?3, ?4, ?5, ?6)
on conflict (tenant, name) do update
set digest = excluded.digest,
    max_attempts = excluded.max_attempts,
    max_crashes = excluded.max_crashes,
    subscribed_at = excluded.subscribed_at,
    removed_at = null
returning id;

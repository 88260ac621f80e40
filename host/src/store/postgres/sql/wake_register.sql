-- Purpose: say that the host $1 is idle, so that publishers notify; hosts that died without taking their name off go. Index: primary key.
-- Locks: the rows.
with gone as (
    delete from relaybus.idle_hosts where seen_at < clock_timestamp() - interval '1 minute' and host <> $1
)
insert into relaybus.idle_hosts (host, seen_at) values ($1, clock_timestamp())
on conflict (host) do update set seen_at = excluded.seen_at;

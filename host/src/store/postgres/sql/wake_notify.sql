-- Purpose: wake the hosts that are idle, if there are others than $1, which it names in the notification. Index: none, the table is tiny.
-- Locks: none; the commit of a notification waits for those of others.
select pg_notify('relaybus_work', $1::text)
where exists (select from relaybus.idle_hosts where host <> $1 and seen_at > clock_timestamp() - interval '1 minute');

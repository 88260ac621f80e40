-- Purpose: replace the patterns of the handler $2 of the tenant $1 by $3. Index: primary key. Locks: the rows; the caller holds the handler's.
with gone as (
    delete from relaybus.subscriptions where tenant = $1 and handler_id = $2 and pattern <> all ($3)
)
insert into relaybus.subscriptions (tenant, handler_id, pattern)
select distinct $1, $2, wanted.pattern from unnest($3) as wanted (pattern)
on conflict do nothing;

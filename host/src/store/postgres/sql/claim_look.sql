-- Purpose: whether one is due that must run alone, and the microseconds until the next delivery of the handlers $1 is due; those of $2, and
-- those that must run alone and are due, are no reason to come back. Index: isolated; due, from the first of each handler. Locks: none.
select
    exists (
        select
        from unnest($1::bigint[]) as served (id)
        cross join lateral (
            select
            from relaybus.deliveries as alone
            where alone.handler_id = served.id
                and alone.status = 'pending' and alone.crashes >= 2
                and alone.due_at <= statement_timestamp()
                and alone.id <> all ($2)
            limit 1
        ) as due
    ) as isolated_due,
    (
        select (extract(epoch from min(due.due_at) - statement_timestamp()) * 1000000)::bigint
        from unnest($1::bigint[]) as served (id)
        cross join lateral (
            select next.due_at
            from relaybus.deliveries as next
            where next.handler_id = served.id
                and next.due_at is not null
                and not (next.status = 'pending' and next.crashes >= 2 and next.due_at <= statement_timestamp())
                and next.id <> all ($2)
            order by next.due_at
            limit 1
        ) as due
    ) as next_due_in_us;

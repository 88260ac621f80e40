-- Purpose: lease what is due of the handlers of the JSON array $1 (handler_id, limit, lease_us), in one statement (R1): at most $4
-- deliveries of at most $5 payload bytes, under the token $2 for the worker $3; if $6, one that must run alone comes first; never those of $7.
-- Index: due, one range per handler; isolated; primary keys. Locks: the rows it takes; what others hold is skipped.
-- The planner takes a step's rows for many thousands and would read whole tables to find them: `= any (array(...))` keeps it to the index.
with served as materialized (
    select handler.id, handler.max_attempts, handler.max_crashes, wanted."limit", wanted.lease_us * interval '1 microsecond' as lease
    from jsonb_to_recordset($1) as wanted (handler_id bigint, "limit" bigint, lease_us bigint)
    join relaybus.handlers as handler on handler.id = wanted.handler_id
    where wanted."limit" > 0
),
isolated as materialized (
    select served.max_attempts, served.max_crashes, served.lease, due.*
    from served
    cross join lateral (
        select delivery.*
        from relaybus.deliveries as delivery
        where delivery.handler_id = served.id
            and delivery.status = 'pending' and delivery.crashes >= 2
            and delivery.due_at <= statement_timestamp()
            and delivery.id <> all ($7)
        order by delivery.due_at
        limit 1
        for update of delivery skip locked
    ) as due
    where $6
    order by due.due_at
    limit 1
),
shared as materialized (
    select served.max_attempts, served.max_crashes, served.lease, due.*
    from served
    cross join lateral (
        select delivery.*
        from relaybus.deliveries as delivery
        where delivery.handler_id = served.id
            and delivery.due_at <= statement_timestamp()
            and not (delivery.status = 'pending' and delivery.crashes >= 2)
            and delivery.id <> all ($7)
        order by delivery.due_at
        limit least(served."limit", $4)
        for update of delivery skip locked
    ) as due
    where not exists (select from isolated)
),
candidates as materialized (
    select
        taken.*,
        taken.crashes + (taken.status = 'processing')::int as n_crashes,
        taken.status = 'processing' as is_expired
    from (select * from isolated union all select * from shared) as taken
),
judged as materialized (
    select
        candidate.*,
        case
            when n_crashes > 0 and n_crashes >= max_crashes then 'max-crashes'
            when attempts >= max_attempts then 'max-attempts'
        end as bury_reason,
        is_expired and n_crashes >= 2 as is_put_back
    from candidates as candidate
),
ranked as materialized (
    select
        judged.*,
        row_number() over by_due as place,
        sum(payload_bytes) over by_due as total_bytes
    from judged
    where bury_reason is null and not is_put_back
    window by_due as (order by due_at, id rows unbounded preceding)
),
to_lease as materialized (
    select * from ranked where place <= $4 and (total_bytes <= $5 or place = 1)
),
leased as (
    update relaybus.deliveries as delivery
    set status = 'processing',
        attempts = delivery.attempts + 1,
        crashes = to_lease.n_crashes,
        ready_at = case when to_lease.is_expired then delivery.ready_at else delivery.due_at end,
        due_at = statement_timestamp() + to_lease.lease,
        lease_token = $2,
        settle_verb = null,
        worker = $3,
        claimed_at = statement_timestamp(),
        reason = case when to_lease.is_expired then 'lease-expired' else delivery.reason end
    from to_lease
    where delivery.id = to_lease.id and delivery.id = any (array(select id from to_lease))
    returning delivery.id, to_lease.due_at as was_due_at
),
put_back as (
    update relaybus.deliveries as delivery
    set status = 'pending',
        crashes = judged.n_crashes,
        due_at = statement_timestamp() + judged.lease * random(),
        lease_token = null,
        settle_verb = null,
        reason = 'lease-expired'
    from judged
    where delivery.id = judged.id and delivery.id = any (array(select id from judged where bury_reason is null and is_put_back))
    returning delivery.id
),
buried as (
    update relaybus.deliveries as delivery
    set status = 'buried',
        crashes = judged.n_crashes,
        due_at = null,
        settled_at = statement_timestamp(),
        lease_token = null,
        settle_verb = null,
        reason = judged.bury_reason
    from judged
    where delivery.id = judged.id and delivery.id = any (array(select id from judged where bury_reason is not null))
    returning delivery.id, delivery.handler_id, delivery.reason
),
lost as materialized (
    select judged.*
    from judged
    where is_expired and id in (select id from leased union all select id from put_back union all select id from buried)
),
trimmed as (
    delete from relaybus.attempt_records as record
    using lost
    where record.delivery_id = lost.id and record.delivery_id = any (array(select id from lost))
        and record.n < (select max(kept.n) from relaybus.attempt_records as kept where kept.delivery_id = lost.id) - 8
),
recorded as (
    insert into relaybus.attempt_records (delivery_id, n, tenant, attempt, worker, started_at, ended_at, reason, message, output)
    select
        lost.id,
        1 + coalesce((select max(kept.n) from relaybus.attempt_records as kept where kept.delivery_id = lost.id), 0),
        lost.tenant, lost.attempts, coalesce(lost.worker, ''), coalesce(lost.claimed_at, lost.due_at), lost.due_at, 'lease-expired',
        'the lease ended before the run was settled', ''
    from lost
)
select 'leased' as fate, leased.id, null::bigint as handler_id, null as reason, leased.was_due_at from leased
union all
select 'buried', buried.id, buried.handler_id, buried.reason, null from buried
union all
select 'put_back', put_back.id, null, null, null from put_back
order by was_due_at, id;

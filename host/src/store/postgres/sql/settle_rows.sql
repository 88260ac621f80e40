-- Purpose: settle the deliveries of the JSON array $1 (id, verb, delay_us or none, whether snoozed, reason), whose tokens were compared under
-- the lock. A snooze gives the attempt back, another failure ends the row of snoozes; a release gives the attempt back, and without a delay
-- goes to the due time that it was claimed at. Index: primary key. Locks: the rows, which the caller holds.
update relaybus.deliveries as delivery
set status = case run.verb when 'complete' then 'completed' when 'bury' then 'buried' else 'pending' end,
    due_at = case
        when run.verb in ('complete', 'bury') then null
        else coalesce(statement_timestamp() + run.delay_us * interval '1 microsecond', delivery.ready_at)
    end,
    ready_at = coalesce(statement_timestamp() + run.delay_us * interval '1 microsecond', delivery.ready_at),
    attempts = case when run.verb = 'release' or run.is_snoozed then greatest(delivery.attempts - 1, 0) else delivery.attempts end,
    snoozes = case
        when run.verb <> 'reschedule' then delivery.snoozes
        when run.is_snoozed then delivery.snoozes + 1
        else 0
    end,
    settled_at = case when run.verb in ('complete', 'bury') then statement_timestamp() end,
    reason = coalesce(run.reason, delivery.reason),
    settle_verb = run.verb
from jsonb_to_recordset($1) as run (id uuid, verb text, delay_us bigint, is_snoozed boolean, reason text)
where delivery.id = run.id;

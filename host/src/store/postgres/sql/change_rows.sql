-- Purpose: change the deliveries $1 as the verb $2 says (redrive, bury, release), whose status was read under the lock. Each clears the token.
-- Index: primary key. Locks: the rows, which the caller holds.
update relaybus.deliveries as delivery
set status = case $2 when 'bury' then 'buried' else 'pending' end,
    attempts = case
        when $2 = 'redrive' then 0
        when $2 = 'release' and delivery.status = 'processing' then greatest(delivery.attempts - 1, 0)
        else delivery.attempts
    end,
    crashes = case $2 when 'redrive' then 0 else delivery.crashes end,
    snoozes = case $2 when 'redrive' then 0 else delivery.snoozes end,
    due_at = case $2 when 'bury' then null else statement_timestamp() end,
    ready_at = case $2 when 'bury' then delivery.ready_at else statement_timestamp() end,
    settled_at = case $2 when 'bury' then statement_timestamp() end,
    lease_token = null,
    settle_verb = null,
    reason = case $2
        when 'bury' then 'operator'
        when 'redrive' then (
            select record.reason from relaybus.attempt_records as record where record.delivery_id = delivery.id order by record.n desc limit 1
        )
        else delivery.reason
    end
where delivery.id = any ($1);

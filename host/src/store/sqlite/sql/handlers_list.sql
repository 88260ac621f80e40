-- Purpose: all handlers with their topics and how many deliveries of each status they have. Index: the counts read due, leased and settled
-- without reading a row. Locks: none.
with
unfinished as (
    select handler_id, count(*) as n from relaybus_deliveries where due_at is not null group by handler_id
),
leased as (
    select handler_id, count(*) as n from relaybus_deliveries where status = 'processing' group by handler_id
),
settled as (
    select handler_id, sum(status = 'completed') as n_completed, sum(status = 'buried') as n_buried
    from relaybus_deliveries where settled_at is not null group by handler_id
)
select
    handler.tenant, handler.name, handler.digest, handler.max_attempts, handler.max_crashes,
    (
        select json_group_array(subscription.pattern order by subscription.pattern) from relaybus_subscriptions as subscription
        where subscription.tenant = handler.tenant and subscription.handler_id = handler.id
    ) as topics,
    coalesce(unfinished.n, 0) - coalesce(leased.n, 0) as n_pending,
    coalesce(leased.n, 0) as n_processing,
    coalesce(settled.n_completed, 0) as n_completed,
    coalesce(settled.n_buried, 0) as n_buried
from relaybus_handlers as handler
left join unfinished on unfinished.handler_id = handler.id
left join leased on leased.handler_id = handler.id
left join settled on settled.handler_id = handler.id
where handler.removed_at is null
order by handler.tenant, handler.name;

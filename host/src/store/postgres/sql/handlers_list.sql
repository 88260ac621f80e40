-- Purpose: all handlers with their topics and how many deliveries of each status they have. Index: none, it counts. Locks: none.
select
    handler.tenant, handler.name, handler.digest, handler.max_attempts, handler.max_crashes,
    array(
        select subscription.pattern from relaybus.subscriptions as subscription
        where subscription.tenant = handler.tenant and subscription.handler_id = handler.id
        order by subscription.pattern collate "C"
    ) as topics,
    count(delivery.id) filter (where delivery.status = 'pending') as n_pending,
    count(delivery.id) filter (where delivery.status = 'processing') as n_processing,
    count(delivery.id) filter (where delivery.status = 'completed') as n_completed,
    count(delivery.id) filter (where delivery.status = 'buried') as n_buried
from relaybus.handlers as handler
left join relaybus.deliveries as delivery on delivery.handler_id = handler.id
where handler.removed_at is null
group by handler.id
order by handler.tenant collate "C", handler.name collate "C";

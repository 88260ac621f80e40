-- Purpose: who handles what in tenant ?1, for the fan-out. Index: primary key (tenant). Locks: the file's write lock.
select handler.id as handler_id, handler.name as name, subscription.pattern as pattern
from relaybus_subscriptions as subscription
join relaybus_handlers as handler on handler.id = subscription.handler_id
where subscription.tenant = ?1
order by handler.id;

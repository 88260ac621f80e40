-- Purpose: who subscribes to what among the tenants $1. Index: primary key. Locks: none.
select handler.tenant, handler.id as handler_id, handler.name, subscription.pattern
from relaybus.subscriptions as subscription
join relaybus.handlers as handler on handler.id = subscription.handler_id
where subscription.tenant = any ($1)
order by handler.id, subscription.pattern;

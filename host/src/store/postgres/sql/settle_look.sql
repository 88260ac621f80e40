-- Purpose: where the deliveries $1 stand. Index: primary key. Locks: the rows, in the order of their ids, so that it is still true when they
-- are settled and two batches cannot deadlock.
select delivery.id, delivery.tenant, delivery.status = 'processing' as is_processing, delivery.attempts, delivery.lease_token, delivery.settle_verb
from relaybus.deliveries as delivery
where delivery.id = any ($1)
order by delivery.id
for update;

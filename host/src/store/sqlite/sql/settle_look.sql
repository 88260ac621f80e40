-- Purpose: where the deliveries of the JSON array ?1 stand. Index: primary key. Locks: the file's write lock, so that it is still true
-- when they are settled.
select delivery.id, delivery.tenant, delivery.status = 'processing' as is_processing, delivery.attempts, delivery.lease_token, delivery.settle_verb
from json_each(?1) as sought
cross join relaybus_deliveries as delivery on delivery.id = unhex(sought.value);

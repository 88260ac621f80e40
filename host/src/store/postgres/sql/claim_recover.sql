-- Purpose: what the claim with the token $1 holds (R2). Index: leased. Locks: none.
select delivery.id
from relaybus.deliveries as delivery
where delivery.lease_token = $1 and delivery.status = 'processing'
order by delivery.ready_at, delivery.id;

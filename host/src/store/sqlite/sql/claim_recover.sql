-- Purpose: the deliveries that are still processing under token ?1. Index: leased. Locks: none beyond the caller's.
select lower(hex(id)) as id
from relaybus_deliveries
where lease_token = ?1 and status = 'processing'
order by ready_at;

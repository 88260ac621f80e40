-- Purpose: how many deliveries of the handlers $1 are pending and processing. Index: due. Locks: none.
select
    count(*) filter (where delivery.status = 'pending') as n_pending,
    count(*) filter (where delivery.status = 'processing') as n_processing
from relaybus.deliveries as delivery
where delivery.handler_id = any ($1) and delivery.due_at is not null;

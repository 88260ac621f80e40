-- Purpose: the handler $2 of the tenant $1, and how many of its deliveries are unfinished. Index: tenant and name; due. Locks: its row.
select
    handler.id,
    (select count(*) from relaybus.deliveries as delivery where delivery.handler_id = handler.id and delivery.due_at is not null) as n_unfinished
from relaybus.handlers as handler
where handler.tenant = $1 and handler.name = $2 and handler.removed_at is null
for update;

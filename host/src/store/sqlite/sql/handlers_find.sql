-- Purpose: the id of handler ?2 of tenant ?1, and whether it has unfinished deliveries. Index: unique (tenant, name), then due.
-- Locks: the file's write lock.
select
    handler.id,
    exists (
        select 1 from relaybus_deliveries as delivery where delivery.handler_id = handler.id and delivery.due_at is not null
    ) as has_unfinished
from relaybus_handlers as handler
where handler.tenant = ?1 and handler.name = ?2 and handler.removed_at is null;

-- Purpose: for each handler of the JSON array ?1, whether anything is due at ?2, when the next one is, and the handler's limits.
-- Index: due and isolated, three seeks per handler; no row is read. Locks: the file's write lock.
select
    handler.id as handler_id,
    handler.max_attempts as max_attempts,
    handler.max_crashes as max_crashes,
    exists (select 1 from relaybus_deliveries as due where due.handler_id = handler.id and due.due_at <= ?2) as has_due,
    exists (
        select 1 from relaybus_deliveries as alone
        where alone.handler_id = handler.id and alone.due_at <= ?2 and alone.status = 'pending' and alone.crashes >= 2
    ) as has_isolated_due,
    (select min(later.due_at) from relaybus_deliveries as later where later.handler_id = handler.id and later.due_at > ?2) as next_due_at
from json_each(?1) as wanted
cross join relaybus_handlers as handler on handler.id = wanted.value;

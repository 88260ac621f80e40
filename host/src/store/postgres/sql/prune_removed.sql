-- Purpose: bury what was published to a handler at the moment of its removal, so that nobody waits for it. Index: due, one range per removed
-- handler. Locks: the rows.
update relaybus.deliveries
set status = 'buried', due_at = null, settled_at = statement_timestamp(), lease_token = null, settle_verb = null, reason = 'operator'
where due_at is not null
    and handler_id = any (array(select handler.id from relaybus.handlers as handler where handler.removed_at is not null));

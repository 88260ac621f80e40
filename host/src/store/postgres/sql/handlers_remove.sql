-- Purpose: remove the handler $1: its subscriptions go, its unfinished deliveries are buried. Index: due. Locks: the rows.
with unsubscribed as (
    delete from relaybus.subscriptions where handler_id = $1
),
buried as (
    update relaybus.deliveries
    set status = 'buried', due_at = null, settled_at = statement_timestamp(), lease_token = null, settle_verb = null, reason = 'operator'
    where handler_id = $1 and due_at is not null
)
update relaybus.handlers set removed_at = statement_timestamp() where id = $1;

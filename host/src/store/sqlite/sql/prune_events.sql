-- Purpose: delete those events of the JSON array ?1 that no delivery is left of. Index: primary key, and the deliveries' event.
-- Locks: the file's write lock.
delete from relaybus_events
where id in (select unhex(orphan.value) from json_each(?1) as orphan)
    and not exists (select 1 from relaybus_deliveries as delivery where delivery.event_id = relaybus_events.id);

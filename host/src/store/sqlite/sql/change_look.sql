-- Purpose: the status of the deliveries of the JSON array ?1. Index: primary key. Locks: the file's write lock, so that it is still true
-- when they are changed.
select id, status from relaybus_deliveries where id in (select unhex(named.value) from json_each(?1) as named);

-- Purpose: delete the attempt records of the deliveries of the JSON array ?1. Index: primary key. Locks: the file's write lock.
delete from relaybus_attempt_records where delivery_id in (select unhex(gone.value) from json_each(?1) as gone);

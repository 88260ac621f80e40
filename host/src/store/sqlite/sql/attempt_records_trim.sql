-- Purpose: keep the latest ?2 attempt records of each delivery of the JSON array ?1. Index: primary key. Locks: the file's write lock.
delete from relaybus_attempt_records
where delivery_id in (select unhex(record.value ->> 'delivery_id') from json_each(?1) as record)
    and n <= (select max(kept.n) from relaybus_attempt_records as kept where kept.delivery_id = relaybus_attempt_records.delivery_id) - ?2;

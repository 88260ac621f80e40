-- Purpose: append the attempt records of the JSON array ?1, one per delivery at most. Index: primary key. Locks: the file's write lock.
insert into relaybus_attempt_records (delivery_id, n, tenant, attempt, worker, started_at, ended_at, reason, message, output)
select
    unhex(record.value ->> 'delivery_id'),
    1 + coalesce((select max(kept.n) from relaybus_attempt_records as kept where kept.delivery_id = unhex(record.value ->> 'delivery_id')), 0),
    record.value ->> 'tenant',
    record.value ->> 'attempt',
    record.value ->> 'worker',
    record.value ->> 'started_at',
    record.value ->> 'ended_at',
    record.value ->> 'reason',
    record.value ->> 'message',
    record.value ->> 'output'
from json_each(?1) as record;

-- Purpose: the attempt records of the delivery $1, oldest first. Index: primary key. Locks: none.
select record.attempt, record.worker, record.started_at, record.ended_at, record.reason, record.message, record.output
from relaybus.attempt_records as record
where record.delivery_id = $1
order by record.n;

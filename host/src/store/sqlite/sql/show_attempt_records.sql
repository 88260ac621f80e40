-- Purpose: the attempt records of delivery ?1, oldest first. Index: primary key. Locks: none.
select attempt, worker, started_at, ended_at, reason, message, output
from relaybus_attempt_records
where delivery_id = ?1
order by n;

-- Purpose: deliveries as people see them; conditions, order and limit are appended. Index: primary key from the latest id down. Locks: none.
select
    delivery.id, delivery.event_id, delivery.tenant, handler.name as handler, delivery.topic, delivery.key, delivery.status,
    delivery.attempts, handler.max_attempts, delivery.crashes, delivery.due_at, delivery.worker,
    coalesce(event.published_at, delivery.ready_at) as published_at, -- a delivery that has lost its event is listed all the same
    delivery.settled_at, delivery.reason, record.message, record.output
from relaybus.deliveries as delivery
join relaybus.handlers as handler on handler.id = delivery.handler_id
left join relaybus.events as event on event.id = delivery.event_id
left join lateral (
    select latest.message, latest.output from relaybus.attempt_records as latest
    where latest.delivery_id = delivery.id
    order by latest.n desc
    limit 1
) as record on true
where true

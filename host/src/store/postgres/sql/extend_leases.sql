-- Purpose: move the lease end of the deliveries $1 that the tokens $2 still hold to $3 microseconds from now. Index: primary key; the entry
-- in `due` moves. Locks: the rows, in the order of their ids; locked ones are passed over and answered as ours.
-- Token and status are compared as no index can: by the index of leases, each of a claim's deliveries would be found by reading all of them.
with held as materialized (
    select * from unnest($1::uuid[], $2::uuid[]) with ordinality as held (id, token, place)
),
free as materialized (
    select delivery.id
    from held
    join relaybus.deliveries as delivery on delivery.id = held.id
    where delivery.lease_token is not distinct from held.token and delivery.status is not distinct from 'processing'
    order by delivery.id
    for update of delivery skip locked
),
renewed as (
    update relaybus.deliveries as delivery
    set due_at = statement_timestamp() + $3 * interval '1 microsecond'
    from free
    where delivery.id = free.id
    returning delivery.id
)
select
    held.id in (select id from renewed) as is_renewed,
    exists (
        select from relaybus.deliveries as ours
        where ours.id = held.id and ours.lease_token is not distinct from held.token and ours.status is not distinct from 'processing'
    ) as is_ours
from held
order by held.place;

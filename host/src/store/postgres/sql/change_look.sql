-- Purpose: the status of the deliveries $1. Index: primary key. Locks: the rows, in the order of their ids.
select delivery.id, delivery.status from relaybus.deliveries as delivery where delivery.id = any ($1) order by delivery.id for update;

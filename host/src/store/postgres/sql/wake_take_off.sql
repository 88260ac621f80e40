-- Purpose: say that the host $1 is idle no more. Index: primary key. Locks: its row.
delete from relaybus.idle_hosts where host = $1;

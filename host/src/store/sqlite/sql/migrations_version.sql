-- Purpose: the version of the schema, 0 before the first migration. Index: primary key. Locks: none beyond the caller's.
select coalesce(max(version), 0) as version from relaybus_migrations;

-- Purpose: make the table that says which migrations have run. Index: none. Locks: the file's write lock, held by the caller.
create table if not exists relaybus_migrations (
    version    integer not null primary key,
    applied_at integer not null
) strict;

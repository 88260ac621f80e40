-- Purpose: note that migration ?1 has run at ?2. Index: primary key. Locks: the file's write lock, held by the caller.
insert into relaybus_migrations (version, applied_at) values (?1, ?2);

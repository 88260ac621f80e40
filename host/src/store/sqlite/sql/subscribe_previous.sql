-- Purpose: the digest of handler ?2 of tenant ?1 before it subscribes again. Index: unique (tenant, name). Locks: the file's write lock.
select digest from relaybus_handlers where tenant = ?1 and name = ?2 and removed_at is null;

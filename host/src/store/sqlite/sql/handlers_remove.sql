-- Purpose: remove handler ?1 at ?2. Index: primary key. Locks: the file's write lock.
update relaybus_handlers set removed_at = ?2 where id = ?1;

-- Purpose: forget the topics of handler ?2 of tenant ?1. Index: primary key (tenant, handler_id). Locks: the file's write lock.
delete from relaybus_subscriptions where tenant = ?1 and handler_id = ?2;

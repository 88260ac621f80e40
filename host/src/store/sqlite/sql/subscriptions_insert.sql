-- Purpose: store the patterns in the JSON array ?3 for handler ?2 of tenant ?1. Index: primary key. Locks: the file's write lock.
insert into relaybus_subscriptions (tenant, handler_id, pattern)
select distinct ?1, ?2, pattern.value from json_each(?3) as pattern;

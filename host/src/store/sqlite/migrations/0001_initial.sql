-- The first schema.
--
-- Names start with `relaybus_` because an application may keep its own tables in the same file. Instants are microseconds since the epoch,
-- by the clock of the host that wrote them. Every table carries the tenant.

create table relaybus_handlers (
    id            integer primary key autoincrement, -- never given twice: a host may still claim for a handler that was removed
    tenant        text    not null,
    name          text    not null,
    digest        text    not null,
    max_attempts  integer not null,
    max_crashes   integer not null,
    subscribed_at integer not null,
    removed_at    integer, -- kept while removed, so that its deliveries still have a handler's name
    unique (tenant, name)
) strict;

create table relaybus_subscriptions (
    tenant     text    not null,
    handler_id integer not null references relaybus_handlers (id),
    pattern    text    not null,
    primary key (tenant, handler_id, pattern)
) strict, without rowid;

create table relaybus_events (
    id           blob    not null primary key check (length(id) = 16),
    tenant       text    not null,
    topic        text    not null,
    key          text,
    content_type text    not null,
    headers      text    not null, -- JSON: [{"name": ..., "value": ...}, ...]
    dedup_id     text,
    n_deliveries integer not null, -- as fanned out: what a repeated publish answers
    published_at integer not null,
    payload      blob    not null
) strict;

create unique index relaybus_events_dedup on relaybus_events (tenant, topic, dedup_id) where dedup_id is not null;
create index relaybus_events_without_deliveries on relaybus_events (published_at) where n_deliveries = 0;

-- Narrow and hot: what a claim, a renewal and a settle touch. Payloads are elsewhere.
create table relaybus_deliveries (
    id            blob    not null primary key check (length(id) = 16),
    event_id      blob    not null check (length(event_id) = 16),
    handler_id    integer not null,
    tenant        text    not null,
    topic         text    not null,
    key           text,
    payload_bytes integer not null,
    status        text    not null check (status in ('pending', 'processing', 'completed', 'buried')),
    attempts      integer not null default 0,
    crashes       integer not null default 0,
    snoozes       integer not null default 0,
    due_at        integer check ((due_at is null) = (status in ('completed', 'buried'))), -- retry time, lease end, or absent
    ready_at      integer not null, -- the due time it was claimed at, to which a release goes back
    lease_token   blob,
    settle_verb   text, -- how the holder of the token settled it, until the next claim
    worker        text, -- that claimed it last
    claimed_at    integer,
    settled_at    integer,
    reason        text
) strict, without rowid;

-- What is due, one range per handler: retries and lost leases alike. Settled rows leave it.
create index relaybus_deliveries_due on relaybus_deliveries (handler_id, due_at) where due_at is not null;
-- What must run alone once it is due. Nearly always empty.
create index relaybus_deliveries_isolated on relaybus_deliveries (handler_id, due_at) where status = 'pending' and crashes >= 2;
-- What one claim holds, and how much is in flight.
create index relaybus_deliveries_leased on relaybus_deliveries (lease_token, handler_id) where status = 'processing';
-- Retention, and counts of what is settled.
create index relaybus_deliveries_settled on relaybus_deliveries (status, settled_at, handler_id) where settled_at is not null;
create index relaybus_deliveries_buried on relaybus_deliveries (id) where status = 'buried';
create index relaybus_deliveries_event on relaybus_deliveries (event_id);
-- For the ordering by key.
create index relaybus_deliveries_key on relaybus_deliveries (handler_id, key) where key is not null;

create table relaybus_attempt_records (
    delivery_id blob    not null,
    n           integer not null, -- counts the records of its delivery
    tenant      text    not null,
    attempt     integer not null,
    worker      text    not null,
    started_at  integer not null,
    ended_at    integer not null,
    reason      text    not null,
    message     text    not null,
    output      text    not null,
    primary key (delivery_id, n)
) strict;

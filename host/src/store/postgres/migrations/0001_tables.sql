-- Purpose: the tables of the first version. Locks: none that anybody waits for, the schema is new.
create table relaybus.handlers (
    id            bigint generated always as identity primary key, -- never given twice: a host may still claim for one that was removed
    tenant        text        not null,
    name          text        not null,
    digest        text        not null,
    max_attempts  bigint      not null,
    max_crashes   bigint      not null,
    subscribed_at timestamptz not null,
    removed_at    timestamptz, -- kept while removed, so that its deliveries still have a handler's name
    unique (tenant, name)
);

create table relaybus.subscriptions (
    tenant     text   not null,
    handler_id bigint not null references relaybus.handlers (id),
    pattern    text   not null,
    primary key (tenant, handler_id, pattern)
);

create table relaybus.events (
    id           uuid        primary key,
    tenant       text        not null,
    topic        text        not null,
    key          text,
    content_type text        not null,
    headers      text        not null, -- JSON: [{"name": ..., "value": ...}, ...]
    dedup_id     text,
    n_deliveries bigint      not null, -- as fanned out: what a repeated publish answers
    published_at timestamptz not null,
    payload      bytea       not null
);
alter table relaybus.events alter column payload set storage external; -- most payloads are small or compressed already

create unique index events_dedup on relaybus.events (tenant, topic, dedup_id) where dedup_id is not null;
create index events_without_deliveries on relaybus.events (published_at) where n_deliveries = 0;

-- Narrow and hot: what a claim, a renewal and a settle touch. Payloads are elsewhere.
create table relaybus.deliveries (
    id            uuid        primary key,
    event_id      uuid        not null,
    handler_id    bigint      not null,
    tenant        text        not null,
    topic         text        not null,
    key           text,
    payload_bytes bigint      not null,
    status        text        not null check (status in ('pending', 'processing', 'completed', 'buried')),
    attempts      bigint      not null default 0,
    crashes       bigint      not null default 0,
    snoozes       bigint      not null default 0,
    due_at        timestamptz check ((due_at is null) = (status in ('completed', 'buried'))), -- retry time, lease end, or absent
    ready_at      timestamptz not null, -- the due time it was claimed at, to which a release goes back
    lease_token   uuid,
    settle_verb   text, -- how the holder of the token settled it, until the next claim
    worker        text, -- that claimed it last
    claimed_at    timestamptz,
    settled_at    timestamptz,
    reason        text
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- What is due, one range per handler: retries and lost leases alike. Settled rows leave it.
create index deliveries_due on relaybus.deliveries (handler_id, due_at) where due_at is not null;
-- What must run alone once it is due. Nearly always empty.
create index deliveries_isolated on relaybus.deliveries (handler_id, due_at) where status = 'pending' and crashes >= 2;
-- What one claim holds.
create index deliveries_leased on relaybus.deliveries (lease_token) where status = 'processing';
-- Retention, and counts of what is settled.
create index deliveries_settled on relaybus.deliveries (status, settled_at) where settled_at is not null;
create index deliveries_event on relaybus.deliveries (event_id);
-- For the ordering by key.
create index deliveries_key on relaybus.deliveries (handler_id, key) where key is not null;

create table relaybus.attempt_records (
    delivery_id uuid        not null,
    n           bigint      not null, -- counts the records of its delivery
    tenant      text        not null,
    attempt     bigint      not null,
    worker      text        not null,
    started_at  timestamptz not null,
    ended_at    timestamptz not null,
    reason      text        not null,
    message     text        not null,
    output      text        not null,
    primary key (delivery_id, n)
);

-- Purpose: publishing for other programs, in their own transactions (relaybus.publish and relaybus.publish_bytes), and the table by which they
-- know whether a worker wants to be woken. Locks: none that anybody waits for, all of it is new.
--
-- A role needs nothing else than this to publish:
--   grant usage on schema relaybus to NAME;
--   grant execute on function relaybus.publish, relaybus.publish_bytes to NAME;

-- Hosts that have found nothing to do. Unlogged: after a crash of the server they register again.
create unlogged table relaybus.idle_hosts (
    host    uuid        primary key,
    seen_at timestamptz not null -- a host that died is not waited upon for ever
);

-- UUID version 7: milliseconds since 1970, then random bits.
create function relaybus.new_event_id() returns uuid
language sql volatile parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select encode(
        set_bit(
            set_bit(
                overlay(
                    uuid_send(gen_random_uuid())
                    placing substring(int8send(floor(extract(epoch from clock_timestamp()) * 1000)::bigint) from 3)
                    from 1 for 6
                ),
                52, 1
            ),
            53, 1
        ),
        'hex'
    )::uuid
$$;

-- The id of an event's delivery to a handler, as every publisher derives it: UUID version 8, the event's first six bytes and then the start of
-- a hash, so that fanning out again creates nothing new.
create function relaybus.delivery_id(event_id uuid, tenant text, handler text) returns uuid
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    bytes bytea := substring(uuid_send(event_id) for 6) || substring(
        sha256(uuid_send(event_id) || convert_to(tenant, 'UTF8') || '\x00'::bytea || convert_to(handler, 'UTF8')) for 10
    );
begin
    bytes := set_byte(bytes, 6, (get_byte(bytes, 6) & 15) | 128);
    bytes := set_byte(bytes, 8, (get_byte(bytes, 8) & 63) | 128);
    return encode(bytes, 'hex')::uuid;
end
$$;

-- Whether a topic is one of those that a pattern stands for: `*` is one token, `>` comes last and is one or more.
create function relaybus.topic_matches(pattern text, topic text) returns boolean
language sql immutable strict parallel safe
as $$
    select topic ~ ('^' || replace(replace(replace(pattern, '.', '\.'), '*', '[^.]+'), '>', '.+') || '$')
$$;

-- A text option, or its default.
create function relaybus.publish_option(options jsonb, name text, max_bytes integer) returns text
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    value jsonb := options -> name;
begin
    if value is null or jsonb_typeof(value) = 'null' then
        return null;
    end if;
    if jsonb_typeof(value) <> 'string' then
        raise exception 'option %: expected a text, got %', name, jsonb_typeof(value) using errcode = 'invalid_parameter_value';
    end if;
    if octet_length(convert_to(value #>> '{}', 'UTF8')) > max_bytes then
        raise exception 'option %: expected at most % bytes, got %', name, max_bytes, octet_length(convert_to(value #>> '{}', 'UTF8'))
            using errcode = 'invalid_parameter_value';
    end if;
    return value #>> '{}';
end
$$;

-- Headers as they are stored, from {"name": "value", ...} or [{"name": ..., "value": ...}, ...].
create function relaybus.publish_headers(headers jsonb) returns text
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    listed jsonb;
    n_bytes bigint;
begin
    if headers is null or jsonb_typeof(headers) = 'null' then
        return '[]';
    end if;
    listed := case jsonb_typeof(headers)
        when 'array' then headers
        when 'object' then (
            select coalesce(jsonb_agg(jsonb_build_object('name', header.key, 'value', header.value)), '[]')
            from jsonb_each(headers) as header
        )
    end;
    if listed is null or exists (
        select from jsonb_array_elements(listed) as header (value)
        where jsonb_typeof(header.value) <> 'object'
            or jsonb_typeof(header.value -> 'name') is distinct from 'string'
            or jsonb_typeof(header.value -> 'value') is distinct from 'string'
            or header.value - '{name,value}'::text[] <> '{}'
    ) then
        raise exception 'option headers: expected {"name": "value"} or [{"name": ..., "value": ...}] with texts, got %', left(headers::text, 80)
            using errcode = 'invalid_parameter_value';
    end if;
    select sum(octet_length(convert_to(header.value ->> 'name', 'UTF8')) + octet_length(convert_to(header.value ->> 'value', 'UTF8')))
    into n_bytes
    from jsonb_array_elements(listed) as header (value);
    if n_bytes > 65536 then
        raise exception 'option headers: expected at most 65536 bytes together, got %', n_bytes using errcode = 'invalid_parameter_value';
    end if;
    return listed::text;
end
$$;

-- Stores one event and its deliveries in the caller's transaction, and answers its id; of an event whose dedup id was there already, the id of
-- the first one. Subscriptions are those that the caller's transaction sees.
--
-- The wake-up: NOTIFY serialises the commits that carry one, so an event carries it only while some host is registered as idle. A host takes
-- its name off at the first notification, and registers again no sooner than 20 ms later. So of many producers at once a few notify, and an
-- event that comes while no host is registered waits for the next look of a host: some 20 ms under load, and at most the poll (1 s) where
-- its transaction stays open while the last busy host becomes idle.
create function relaybus.publish_event(topic text, payload bytea, default_content_type text, options jsonb) returns uuid
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    event_id uuid := relaybus.new_event_id();
    -- `now()` stands still in a transaction.
    published_now constant timestamptz := clock_timestamp();
    delay interval;
    event_tenant text;
    event_key text;
    event_dedup_id text;
    handler_ids bigint[];
    stored_id uuid;
    unknown_option text;
begin
    if topic is null or payload is null then
        raise exception 'expected a topic and a payload, got null' using errcode = 'null_value_not_allowed';
    end if;
    if topic !~ '^[A-Za-z0-9_-]{1,64}(\.[A-Za-z0-9_-]{1,64}){0,15}$' then
        raise exception 'topic: expected 1 to 16 tokens of 1 to 64 characters of `A-Z a-z 0-9 _ -` joined by dots, got `%`', left(topic, 80)
            using errcode = 'invalid_parameter_value';
    end if;
    options := coalesce(options, '{}');
    if jsonb_typeof(options) <> 'object' then
        raise exception 'options: expected an object such as {"key": "order-7"}, got %', jsonb_typeof(options)
            using errcode = 'invalid_parameter_value';
    end if;
    select name into unknown_option
    from jsonb_object_keys(options) as name
    where name not in ('key', 'headers', 'content_type', 'delay', 'tenant', 'dedup_id')
    limit 1;
    if found then
        raise exception 'options: expected key, headers, content_type, delay, tenant or dedup_id, got `%`', unknown_option
            using errcode = 'invalid_parameter_value';
    end if;
    event_tenant := coalesce(relaybus.publish_option(options, 'tenant', 64), 'default');
    if event_tenant !~ '^[A-Za-z0-9_-]{1,64}$' then
        raise exception 'option tenant: expected 1 to 64 characters of `A-Z a-z 0-9 _ -`, got `%`', event_tenant
            using errcode = 'invalid_parameter_value';
    end if;
    event_key := relaybus.publish_option(options, 'key', 1024);
    event_dedup_id := relaybus.publish_option(options, 'dedup_id', 1024);
    begin
        delay := coalesce(relaybus.publish_option(options, 'delay', 64), '0')::interval;
    exception when invalid_datetime_format or interval_field_overflow or datetime_field_overflow then
        raise exception 'option delay: expected a duration such as "5s" or "1 hour", got `%`', options ->> 'delay'
            using errcode = 'invalid_parameter_value';
    end;
    if delay < interval '0' or delay > interval '1000 years' then
        raise exception 'option delay: expected a duration from 0 to 1000 years, got `%`', options ->> 'delay'
            using errcode = 'invalid_parameter_value';
    end if;

    select coalesce(array_agg(distinct subscription.handler_id), '{}') into handler_ids
    from relaybus.subscriptions as subscription
    where subscription.tenant = event_tenant and relaybus.topic_matches(subscription.pattern, publish_event.topic);

    insert into relaybus.events (id, tenant, topic, key, content_type, headers, dedup_id, n_deliveries, published_at, payload)
    values (
        event_id, event_tenant, publish_event.topic, event_key,
        coalesce(relaybus.publish_option(options, 'content_type', 256), default_content_type),
        relaybus.publish_headers(options -> 'headers'),
        event_dedup_id, cardinality(handler_ids), published_now, publish_event.payload
    )
    on conflict do nothing
    returning id into stored_id;
    if stored_id is null then
        select known.id into stored_id
        from relaybus.events as known
        where known.tenant = event_tenant and known.topic = publish_event.topic and known.dedup_id = event_dedup_id;
        if stored_id is null then
            raise exception 'the event with the dedup_id `%` was deleted at this moment', event_dedup_id using errcode = 'serialization_failure';
        end if;
        return stored_id;
    end if;

    insert into relaybus.deliveries (id, event_id, handler_id, tenant, topic, key, payload_bytes, status, due_at, ready_at)
    select
        relaybus.delivery_id(event_id, event_tenant, handler.name), event_id, handler.id, event_tenant, publish_event.topic, event_key,
        octet_length(publish_event.payload), 'pending', published_now + delay, published_now + delay
    from relaybus.handlers as handler
    where handler.id = any (handler_ids);
    if found and exists (select from relaybus.idle_hosts where seen_at > clock_timestamp() - interval '1 minute') then
        perform pg_notify('relaybus_work', '');
    end if;
    return event_id;
end
$$;

-- Publishes a JSON payload. Options: key, headers, content_type, delay ("5s"), tenant, dedup_id. It runs with the rights of its owner, so that
-- its caller needs none on the tables.
create function relaybus.publish(topic text, payload jsonb, options jsonb default '{}') returns uuid
language sql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
    select relaybus.publish_event(topic, convert_to(payload::text, 'UTF8'), 'application/json', options)
$$;

-- Publishes a payload of any kind; its media type is application/octet-stream unless the option content_type says otherwise.
create function relaybus.publish_bytes(topic text, payload bytea, options jsonb default '{}') returns uuid
language sql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
    select relaybus.publish_event(topic, payload, 'application/octet-stream', options)
$$;

revoke execute on all functions in schema relaybus from public;

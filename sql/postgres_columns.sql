-- Purpose: the tables and views of a schema in PostgreSQL and their columns, to tell what is there from what is wanted.
-- Grain: one row a column, in the order of the table.
-- Inputs: PostgreSQL's catalogue. Parameters: $1 the schema's name.
select
    cast(c.relname as text),
    cast(a.attname as text),
    format_type(a.atttypid, a.atttypmod)
from pg_catalog.pg_class as c
inner join pg_catalog.pg_namespace as n on c.relnamespace = n.oid
inner join pg_catalog.pg_attribute as a on c.oid = a.attrelid
where n.nspname = $1 and c.relkind in ('r', 'p', 'v', 'm', 'f') and a.attnum > 0 and not a.attisdropped
    and (c.relname <> 'eloreplay_run' or a.attname <> 'published_at')
order by c.relname, a.attnum

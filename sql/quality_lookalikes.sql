-- Purpose: player ids that a person would take for one: they differ only by case, by space around them, by leading zeros or by how an
--   accent is written.
-- Grain: one row a group of such ids of one pool, the $shown first by their common form.
-- Inputs: quality_sides; $shown. Ids stay what they are: nothing is merged.
-- total: of all groups, not only of those shown. ids: at most five of them.
with ids as (
    select distinct
        pool,
        cast(player_id as varchar) as player_id
    from quality_sides
),

folded as (
    select
        pool,
        player_id,
        ltrim(regexp_replace(lower(nfc_normalize(player_id)), '^\s+|\s+$', '', 'g'), '0') as common_form
    from ids
),

groups as (
    select
        pool,
        common_form,
        cast(count(*) as bigint) as id_count
    from folded
    group by pool, common_form
    having count(*) > 1
),

counted as (
    select cast(count(*) as bigint) as total
    from groups
),

-- Only the groups that are shown are listed: a list does not spill.
shown as (
    select *
    from groups
    order by pool, common_form
    limit $shown
)

select
    shown.pool,
    list(folded.player_id order by folded.player_id)[1:5] as ids,
    shown.id_count,
    counted.total
from shown
cross join counted
inner join folded on shown.pool = folded.pool and shown.common_form = folded.common_form
group by shown.pool, shown.common_form, shown.id_count, counted.total
order by shown.pool, shown.common_form

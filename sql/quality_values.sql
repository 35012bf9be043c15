-- Purpose: which values the optional columns hold, as they stand in the files (NULL is a value of its own: `is_missing`).
-- Grain: one row a column and value for the $shown most frequent values, and one row for all others together (`others` of them).
-- Inputs: quality_games; $shown.
-- Ties: of equally frequent values the lesser text comes first.
with cells as (
    select 'mode' as field, mode as cell, count(*) as games
    from quality_games
    group by mode
    union all
    select 'cube', cast(cube as varchar), count(*)
    from quality_games
    group by cube
    union all
    select 'match_length', cast(match_length as varchar), count(*)
    from quality_games
    group by match_length
    union all
    select 'result', result, count(*)
    from quality_games
    group by result
    union all
    select 'ended_by', ended_by, count(*)
    from quality_games
    group by ended_by
    union all
    select 'is_draw', cast(is_draw as varchar), count(*)
    from quality_games
    group by is_draw
),

placed as (
    select
        field,
        cell,
        games,
        row_number() over (partition by field order by games desc, cell asc nulls first) as place
    from cells
)

select
    field,
    case when place <= $shown then cell end as cell,
    place <= $shown and cell is null as is_missing,
    cast(sum(games) as bigint) as games,
    cast(count(*) filter (where place > $shown) as bigint) as others
from placed
group by field, least(place, $shown + 1), case when place <= $shown then cell end, place <= $shown and cell is null
order by field, least(place, $shown + 1)

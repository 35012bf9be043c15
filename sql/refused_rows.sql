-- Purpose: the rows that are refused, with where they stand, why, and their own values as text.
-- Grain: one row a refused row.
-- Inputs: judged; conflicting (the staged rows of conflicting copies, taken out of staged before).
-- played_us: the instant again, as a number; NULL for rows that belong to no chunk of time.
-- Ties: order is by place (file, row), which is total.
with refused as (
    select
        file_no, row_no, verdict as reason, pool, game_id, played_us, raw_winner_id as winner_id, raw_loser_id as loser_id, mode,
        cube, match_length, result, ended_by, is_draw, voided, revision, advantage, weight
    from judged
    where verdict not in ('rated', 'unrated', 'voided', 'held')
    union all by name
    select *, 'conflicting_copies' as reason
    from conflicting
)

select
    file_no,
    row_no as "row",
    reason,
    case when reason not in ('missing_id', 'missing_time') then played_us end as played_us,
    cast(pool as varchar) as pool,
    cast(game_id as varchar) as game_id,
    cast(make_timestamptz(played_us) as varchar) as played_at,
    cast(winner_id as varchar) as winner_id,
    cast(loser_id as varchar) as loser_id,
    mode,
    cast(cube as varchar) as cube,
    cast(match_length as varchar) as match_length,
    result,
    ended_by,
    cast(is_draw as varchar) as is_draw,
    cast(voided as varchar) as voided,
    cast(revision as varchar) as revision,
    cast(advantage as varchar) as advantage,
    cast(weight as varchar) as weight
from refused
order by file_no, row_no

-- Purpose: the awards that are refused, with where they stand, why, and their own values as text.
-- Grain: one row a refused award.
-- Inputs: awards_judged.
select
    file_no,
    row_no as "row",
    verdict as reason,
    cast(pool as varchar) as pool,
    cast(award_id as varchar) as award_id,
    cast(make_timestamptz(awarded_us) as varchar) as awarded_at,
    cast(raw_player_id as varchar) as player_id,
    cast(points as varchar) as points,
    reason as award_reason
from awards_judged
where verdict not in ('applied', 'unrated', 'held', 'duplicate')
order by file_no, row_no

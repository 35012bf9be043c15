-- Purpose: the first award or adjustment of one player that only one of two runs has, or that has other points.
-- Grain: one row, or none.
-- Inputs: awards_before, awards_now (pool NULL where there is one pool only); $pool, $player, $until_us (microseconds, included).
-- Not its rating_before or change: they follow from what came before.
with before as (
    select award_id, epoch_us(awarded_at) as awarded_us, points, reason
    from awards_before
    where player_id = $player and pool is not distinct from $pool and epoch_us(awarded_at) <= $until_us
),

now as (
    select award_id, epoch_us(awarded_at) as awarded_us, points, reason
    from awards_now
    where player_id = $player and pool is not distinct from $pool and epoch_us(awarded_at) <= $until_us
),

differing as (
    select *, 'late' as kind
    from (
        select * from now
        except all
        select * from before
    )
    union all
    select *, 'gone' as kind
    from (
        select * from before
        except all
        select * from now
    )
)

select *
from differing
order by awarded_us, award_id nulls first, kind
limit 1

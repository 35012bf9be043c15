-- Purpose: what moved one player's rating without a game in a stretch of time, with its reason.
-- Grain: one row an award or adjustment.
-- Inputs: awards; $pool (NULL where there is one pool only), $player, $after_us, $to_us (microseconds, the second included).
-- Order: as they were applied.
select
    award_id,
    epoch_us(awarded_at) as awarded_us,
    points,
    reason,
    rating_before,
    change
from awards
where
    player_id = $player
    and pool is not distinct from $pool
    and epoch_us(awarded_at) > $after_us
    and epoch_us(awarded_at) <= $to_us
order by awarded_us, award_id nulls first

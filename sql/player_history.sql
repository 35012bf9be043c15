-- Purpose: one player's rating over time.
-- Grain: one row a game, award or adjustment of his.
-- Inputs: player_timeline; $pool (NULL where there is one pool only), $player.
-- Order: as it happened (see sql/player_timeline.sql). Few columns: the whole history is read for them.
select
    seq,
    epoch_us(played_at) as played_us,
    score,
    rating_after
from player_timeline
where player_id = $player and pool is not distinct from $pool
order by played_us, (seq is not null), award_id nulls first, seq

-- Purpose: the timeline row of one game.
-- Grain: one row, or none when the game is not rated.
-- Inputs: timeline (pool NULL where there is one pool only), $game.
select
    * exclude (played_at),
    epoch_us(played_at) as played_us
from timeline
where game_id = $game

-- Purpose: the games seen from each of their players.
-- Grain: one row a game and player.
-- Inputs: quality_games.
select pool, winner_id as player_id, played_us
from quality_games
union all
select pool, loser_id, played_us
from quality_games

-- Purpose: where those stand whose week is heavy.
-- Grain: one row a pool and player.
-- Inputs: heavy (sql/heavy_players.sql), ranks (sql/leaderboard.sql without an end, of the same instant).
-- Order: the most games first, then the player's id.
select
    heavy.pool,
    heavy.player_id,
    heavy.recent_games,
    heavy.least_us,
    ranks.rank,
    ranks.rating,
    ranks.games
from heavy
inner join ranks on heavy.pool is not distinct from ranks.pool and heavy.player_id = ranks.player_id
order by heavy.pool, heavy.recent_games desc, heavy.player_id

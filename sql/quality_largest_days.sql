-- Purpose: the days on which one player played most.
-- Grain: one row a player and day, the $shown largest.
-- Inputs: quality_player_days; $shown.
-- Ties: the earlier day first, then the lesser id.
select
    pool,
    player_id,
    day_us,
    cast(games as bigint) as games,
    cast(days as bigint) as days,
    median_games
from quality_player_days
order by games desc, day_us asc, pool asc, player_id asc
limit $shown

-- Purpose: the start ratings by position in the state.
-- Grain: one row a start rating.
-- Inputs: start_ratings, player_index.
select
    player_index.player_index,
    start_ratings.rating,
    start_ratings.games,
    start_ratings.experience
from start_ratings
inner join player_index
    on start_ratings.pool = player_index.pool and start_ratings.player_id = player_index.player_id
order by player_index.player_index

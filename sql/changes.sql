-- Purpose: who stands elsewhere than in the run before, and how much of it comes from what was restated.
-- Grain: one row a player whose rating or number of games differs, who is new or gone, or whose past was restated.
-- Inputs: players (this run), players_before (pool, player_id, rating, games), ranks_after and ranks_before (pool, player_id, rank: of
--   everybody who may stand on the board, without an end), horizon_ratings (pool, player_id, rating: this run's ratings right after the
--   last game or award of the run before).
-- Edges: a new player has no rating before and no change; one who is gone has none after. restated_change is what the past alone did: the
--   rating at the horizon less the rating before; the rest of the change comes from what happened after the horizon.
select
    coalesce(players.pool, players_before.pool) as pool,
    coalesce(players.player_id, players_before.player_id) as player_id,
    players_before.rating as rating_before,
    players.rating as rating_after,
    players.rating - players_before.rating as change,
    case when players.player_id is not null then horizon_ratings.rating - players_before.rating end as restated_change,
    ranks_before.rank as rank_before,
    ranks_after.rank as rank_after,
    coalesce(players.games, 0) as games
from players
full join players_before
    on players.pool is not distinct from players_before.pool and players.player_id = players_before.player_id
left join horizon_ratings
    on
        players_before.pool is not distinct from horizon_ratings.pool
        and players_before.player_id = horizon_ratings.player_id
left join ranks_before
    on players_before.pool is not distinct from ranks_before.pool and players_before.player_id = ranks_before.player_id
left join ranks_after
    on players.pool is not distinct from ranks_after.pool and players.player_id = ranks_after.player_id
where
    players.rating is distinct from players_before.rating
    or players.games is distinct from players_before.games
    or horizon_ratings.rating is distinct from players_before.rating
order by 1, 2

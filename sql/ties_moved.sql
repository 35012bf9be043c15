-- Purpose: whose final rating is another one when the games of each instant are played the other way round.
-- Grain: one row a pool and player who moves.
-- Inputs: players (pool NULL where there is one pool only), reversed_players (pool, player_id, rating), tied_sides.
-- Order: the largest movement first, then the player's id.
with tied as (
    select
        pool,
        player_id,
        count(*) as tied_games
    from tied_sides
    group by pool, player_id
)

select
    players.pool,
    players.player_id,
    players.rating,
    reversed_players.rating as reversed_rating,
    reversed_players.rating - players.rating as change,
    players.games,
    cast(coalesce(tied.tied_games, 0) as integer) as tied_games
from players
inner join reversed_players
    on players.pool is not distinct from reversed_players.pool and players.player_id = reversed_players.player_id
left join tied on players.pool is not distinct from tied.pool and players.player_id = tied.player_id
where players.rating <> reversed_players.rating
order by abs(reversed_players.rating - players.rating) desc, players.pool, players.player_id

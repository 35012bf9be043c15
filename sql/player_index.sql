-- Purpose: a position for every player that the run meets: his place in the kernel's arrays, never in an output.
-- Grain: one row a (pool, player).
-- Inputs: judged, awards_judged, start_ratings; known_players (pool, player_id, player_index: those that have a position from the
--   run before, without a gap from 0; empty in a backfill).
-- Known players keep their position, new ones follow in the order of their ids.
with players as (
    select pool, winner_id as player_id
    from judged
    where verdict = 'rated'
    union
    select pool, loser_id
    from judged
    where verdict = 'rated'
    union
    select pool, player_id
    from awards_judged
    where verdict = 'applied'
    union
    select pool, player_id
    from start_ratings
),

news as (
    select players.pool, players.player_id
    from players
    anti join known_players on players.pool = known_players.pool and players.player_id = known_players.player_id
)

select pool, player_id, player_index
from known_players
union all
select
    pool,
    player_id,
    cast(row_number() over (order by pool, player_id) - 1 + (select count(*) from known_players) as integer) as player_index
from news

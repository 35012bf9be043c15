-- Purpose: a position for every player that the run meets: his place in the kernel's arrays, never in an output.
-- Grain: one row a (pool, player).
-- Inputs: judged, awards_judged, start_ratings.
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
)

select
    pool,
    player_id,
    cast(row_number() over (order by pool, player_id) - 1 as integer) as player_index
from players
order by player_index

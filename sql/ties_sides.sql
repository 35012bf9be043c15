-- Purpose: the games that share an instant with another game of the same player.
-- Grain: one row a game and player of it who has another game at that very instant.
-- Inputs: timeline (of whole instants; pool NULL where there is one pool only).
with instants as (
    select played_at
    from timeline
    group by played_at
    having count(*) > 1
),

sides as (
    select pool, winner_id as player_id, played_at, seq
    from timeline
    where played_at in (select played_at from instants)
    union all
    select pool, loser_id, played_at, seq
    from timeline
    where played_at in (select played_at from instants)
),

counted as (
    select
        *,
        count(*) over (partition by pool, player_id, played_at) as games
    from sides
)

select
    pool,
    player_id,
    epoch_us(played_at) as played_us,
    seq
from counted
where games > 1

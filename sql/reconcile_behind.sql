-- Purpose: the players whose live rating is the one they had some games ago.
-- Grain: one row a player whose live rating (and number of games, where live says it) is one that he had after an earlier game.
-- Inputs: timeline (pool NULL when there is one only); asked (pool, player_id, rating, games: those that differ); $tolerance; $within
--   (games: where live says no number of games, an equal rating of long ago is chance).
with steps as (
    select
        pool,
        unnest([winner_id, loser_id]) as player_id,
        seq,
        unnest([
            cast(winner_rating_before + winner_change as double), cast(loser_rating_before + loser_change as double)
        ]) as rating_after,
        unnest([winner_games + 1, loser_games + 1]) as games
    from timeline
),

placed as (
    select
        steps.*,
        row_number() over (partition by steps.pool, steps.player_id order by steps.seq desc) - 1 as behind
    from steps
    semi join asked on steps.pool is not distinct from asked.pool and steps.player_id = asked.player_id
)

select placed.pool, placed.player_id, cast(min(placed.behind) as bigint) as behind
from placed
inner join asked on placed.pool is not distinct from asked.pool and placed.player_id = asked.player_id
where
    abs(placed.rating_after - asked.rating) <= $tolerance
    and (asked.games = placed.games or (asked.games is null and placed.behind <= $within))
    and placed.behind > 0
group by placed.pool, placed.player_id
order by 1, 2

-- Purpose: how many players there are and how many were seen once only.
-- Grain: one row.
-- Inputs: quality_sides. A player is a (pool, player).
with played as (
    select pool, player_id, count(*) as games
    from quality_sides
    group by pool, player_id
)

select
    cast(count(*) as bigint) as players,
    cast(count(*) filter (where games = 1) as bigint) as seen_once,
    quantile_cont(cast(games as double), 0.5) as median_games,
    cast(coalesce(max(games), 0) as bigint) as most_games
from played

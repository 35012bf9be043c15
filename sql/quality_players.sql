-- Purpose: how many players there are and how many were seen once only.
-- Grain: one row.
-- Inputs: quality_sides. A player is a (pool, player).
-- blank_games: games, seen from the player, of ids that are text without a visible character: often a missing id in disguise.
with played as (
    select
        pool,
        player_id,
        count(*) as games,
        regexp_full_match(cast(player_id as varchar), '[\s\pZ\pC]*') as is_blank
    from quality_sides
    group by pool, player_id
)

select
    cast(count(*) as bigint) as players,
    cast(count(*) filter (where games = 1) as bigint) as seen_once,
    quantile_cont(cast(games as double), 0.5) as median_games,
    cast(coalesce(max(games), 0) as bigint) as most_games,
    cast(count(*) filter (where is_blank) as bigint) as blank_ids,
    cast(coalesce(sum(games) filter (where is_blank), 0) as bigint) as blank_games
from played

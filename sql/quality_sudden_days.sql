-- Purpose: days on which a player played far more than is usual for him.
-- Grain: one row a player and day, the $shown largest by games over his median.
-- Inputs: quality_player_days; $times (more than so many times his own median), $at_least (games), $shown.
-- Edges: exactly $times his median is not sudden; exactly $at_least games can be.
-- total, players: of all such days, not only of those shown.
with sudden as (
    select *
    from quality_player_days
    where games > $times * median_games and games >= $at_least
),

counted as (
    select
        count(*) as total,
        count(distinct row(pool, player_id)) as players
    from sudden
)

select
    sudden.pool,
    sudden.player_id,
    sudden.day_us,
    cast(sudden.games as bigint) as games,
    cast(sudden.days as bigint) as days,
    sudden.median_games,
    cast(counted.total as bigint) as total,
    cast(counted.players as bigint) as players
from sudden
cross join counted
order by sudden.games / sudden.median_games desc, sudden.games desc, sudden.day_us asc, sudden.pool asc, sudden.player_id asc
limit $shown

-- Purpose: each player's games a day, beside what is usual for him.
-- Grain: one row a player (of a pool) and UTC day on which he played.
-- Inputs: quality_sides.
-- median_games: of his own days with games, this one included; days without games do not count.
with days as (
    select
        pool,
        player_id,
        date_trunc('day', make_timestamp(played_us)) as day_start,
        count(*) as games
    from quality_sides
    group by all
),

usual as (
    select
        pool,
        player_id,
        count(*) as days,
        quantile_cont(cast(games as double), 0.5) as median_games
    from days
    group by pool, player_id
)

select
    days.pool,
    days.player_id,
    epoch_us(days.day_start) as day_us,
    days.games,
    usual.days,
    usual.median_games
from days
inner join usual on days.pool = usual.pool and days.player_id = usual.player_id

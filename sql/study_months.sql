-- Purpose: what a month's ratings looked like before its games, for the strength slice and the strongest players.
-- Grain: one row a pool and month (UTC) with rated games.
-- Inputs: timeline (pool NULL when there is one); $from_us, $to_us (microseconds, half-open, whole months).
-- edge_1 … edge_9: the deciles of all ratings before a game, two a game; a rating's decile is 1 plus the number of edges below it.
--   An edge is the least rating at or below which that share of them lies. Whole numbers decide it, so no rounding can.
-- month_index: from 0, for short keys.
with counted as (
    select
        pool,
        cast(date_trunc('month', make_timestamp(epoch_us(played_at))) as date) as month_start,
        winner_rating_before as rating,
        count(*) as games
    from timeline
    where played_at >= make_timestamp($from_us) at time zone 'UTC' and played_at < make_timestamp($to_us) at time zone 'UTC'
    group by all
    union all
    select pool, cast(date_trunc('month', make_timestamp(epoch_us(played_at))) as date), loser_rating_before, count(*)
    from timeline
    where played_at >= make_timestamp($from_us) at time zone 'UTC' and played_at < make_timestamp($to_us) at time zone 'UTC'
    group by all
),

ranked as (
    select
        pool,
        month_start,
        rating,
        sum(sum(games)) over (partition by pool, month_start order by rating) as at_or_below,
        sum(sum(games)) over (partition by pool, month_start) as total
    from counted
    group by pool, month_start, rating
)

select
    pool,
    month_start,
    cast(row_number() over (order by pool, month_start) - 1 as bigint) as month_index,
    cast(min(rating) filter (where at_or_below * 10 >= total) as double) as edge_1,
    cast(min(rating) filter (where at_or_below * 10 >= total * 2) as double) as edge_2,
    cast(min(rating) filter (where at_or_below * 10 >= total * 3) as double) as edge_3,
    cast(min(rating) filter (where at_or_below * 10 >= total * 4) as double) as edge_4,
    cast(min(rating) filter (where at_or_below * 10 >= total * 5) as double) as edge_5,
    cast(min(rating) filter (where at_or_below * 10 >= total * 6) as double) as edge_6,
    cast(min(rating) filter (where at_or_below * 10 >= total * 7) as double) as edge_7,
    cast(min(rating) filter (where at_or_below * 10 >= total * 8) as double) as edge_8,
    cast(min(rating) filter (where at_or_below * 10 >= total * 9) as double) as edge_9
from ranked
group by pool, month_start

-- Purpose: the numbers behind the table `summary`.
-- Grain: one row a pool and statistic (and month).
-- Inputs: game_counts, favourite_counts, players (with band), pools, bands (may be empty); $active_days.
-- Quantiles are linear between neighbours; integers and order statistics only, so no order of threads can show.
-- Active: played within $active_days of the pool's last rated game.
-- Bands: players by named range of ratings, every band of the rules in every pool; those below the first band stand under ''.
with months as (
    select pool, strftime(month_start, '%Y-%m') as month, cast(sum(games) as bigint) as games
    from game_counts
    group by pool, month_start
),

known as (
    select pool, rating, games, 'all' as slice, '' as slice_value
    from players
    union all by name
    select pool, rating, games, 'active' as slice, concat($active_days, ' days') as slice_value
    from players
    where last_played_at is not null
    qualify last_played_at >= max(last_played_at) over (partition by pool) - to_days(cast($active_days as integer))
),

spread as (
    select
        pool,
        slice,
        slice_value,
        count(*) as players,
        quantile_cont(cast(rating as double), [0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0]) as q
    from known
    group by all
),

favoured as (
    select pool, cast(sum(games) as bigint) as games, sum(half_wins) as half_wins, sum(expected_sum) as expected_sum
    from favourite_counts
    group by pool
),

banded as (
    select pools.pool, bands.band
    from pools
    cross join bands
    union all
    select pools.pool, '' as band
    from pools
    where exists (select 1 from bands)
),

in_bands as (
    select banded.pool, banded.band, count(placed.band) as players
    from banded
    left join (
        select pool, coalesce(band, '') as band
        from players
    ) as placed
        on banded.pool is not distinct from placed.pool and banded.band = placed.band
    group by banded.pool, banded.band
    having banded.band <> '' or count(placed.band) > 0
),

totals as (
    select pool, cast(sum(games) as bigint) as games, cast(sum(draws) as bigint) as draws
    from game_counts
    group by pool
)

select
    pool,
    'games' as statistic,
    'all' as slice,
    '' as slice_value,
    cast(games as double) as value,
    games,
    null as half_wins,
    null as expected_sum
from totals
union all
select pool, 'draws', 'all', '', draws, games, null, null
from totals
union all
select pool, 'games', 'month', month, games, games, null, null
from months
union all
select pool, 'players', slice, slice_value, players, null, null, null
from spread
union all
select pool, 'players', 'band', band, players, null, null, null
from in_bands
union all
select
    pool,
    unnest(['rating_min', 'rating_p05', 'rating_p25', 'rating_median', 'rating_p75', 'rating_p95', 'rating_max']),
    slice,
    slice_value,
    unnest(q),
    null,
    null,
    null
from spread
union all
select pool, 'rating_middle_half_width', slice, slice_value, q[5] - q[3], null, null, null
from spread
union all
select totals.pool, 'games_without_favourite', 'all', '', totals.games - coalesce(favoured.games, 0), totals.games, null, null
from totals
left join favoured on totals.pool is not distinct from favoured.pool
union all
select pool, 'favourite_rate', 'all', '', null, games, cast(half_wins as bigint), cast(expected_sum as varchar)
from favoured
order by 1, 2, 3, 4

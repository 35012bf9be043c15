-- Purpose: the counts behind the calibration curves.
-- Grain: one row a pool, axis and bin; bins without games are there too.
-- Inputs: favourite_counts; pools (every pool of the run, one row with pool NULL when there is one only).
-- Sums are of integers: no order of threads can show in them.
with bins as (
    select 'gap' as axis, cast(i as integer) as bin, i * 25.0 as bin_low, case when i < 20 then (i + 1) * 25.0 end as bin_high
    from range(21) as r (i)
    union all
    select 'probability', cast(i as integer), (20 + i) / 40.0, (21 + i) / 40.0
    from range(20) as r (i)
),

counted as (
    select pool, 'gap' as axis, gap_bin as bin, sum(games) as games, sum(half_wins) as half_wins, sum(expected_sum) as expected_sum
    from favourite_counts
    group by pool, gap_bin
    union all
    select pool, 'probability', probability_bin, sum(games), sum(half_wins), sum(expected_sum)
    from favourite_counts
    group by pool, probability_bin
)

select
    pools.pool,
    'all' as slice,
    '' as slice_value,
    bins.axis,
    cast(bins.bin_low as double) as bin_low,
    cast(bins.bin_high as double) as bin_high,
    cast(coalesce(counted.games, 0) as bigint) as games,
    cast(coalesce(counted.half_wins, 0) as bigint) as half_wins,
    cast(coalesce(counted.expected_sum, 0) as varchar) as expected_sum
from pools
cross join bins
left join counted
    on pools.pool is not distinct from counted.pool and bins.axis = counted.axis and bins.bin = counted.bin
order by pools.pool, bins.axis, bins.bin_low

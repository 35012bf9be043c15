-- Purpose: each player's share in each of the ten bins of the calibration error, to draw the players again.
-- Grain: one row a pool, slice value, bin and player that occurs.
-- Inputs: study_sliced. Games without a favourite are left out.
with valued as (
    select
        pool,
        slice_value,
        probability_bin // 2 as bin,
        unnest([first_player, second_player]) as player,
        half_points
    from study_sliced
    where gap_bin is not null
)

select
    pool,
    slice_value,
    cast(bin as tinyint) as bin,
    cast(player as bigint) as player,
    cast(count(*) as bigint) as games,
    cast(sum(half_points) as bigint) as half_points
from valued
group by all
order by 1, 2, 3, 4

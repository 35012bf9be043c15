-- Purpose: how much the favourites' results of one player, and of one pair of players, hang together in each bin of a curve.
-- Grain: one row a pool, slice value and bin of $axis that occurs.
-- Inputs: study_sliced; $axis (gap, probability, error: the ten bins of the calibration error, or all: one bin).
-- For a rate r the clustered variance of its sum is the sum over players of (points - r * games)^2, less the same over pairs, for two games
--   of one pair have two players in common. Both squares are polynomials in r, so that integers suffice: n_n, n_h and h_h are sums of
--   games * games, games * half points and half points * half points, over players, pairs and single games.
-- Games without a favourite are left out.
with valued as (
    select
        pool,
        slice_value,
        case $axis
            when 'gap' then gap_bin
            when 'probability' then probability_bin
            when 'error' then probability_bin // 2
            else 0
        end as bin,
        first_player,
        second_player,
        half_points
    from study_sliced
    where gap_bin is not null
),

pairs as materialized (
    select
        pool,
        slice_value,
        bin,
        first_player,
        second_player,
        count(*) as games,
        sum(half_points) as half_points,
        sum(half_points * half_points) as squares
    from valued
    group by all
),

players as (
    select pool, slice_value, bin, player, cast(sum(games) as hugeint) as games, cast(sum(half_points) as hugeint) as half_points
    from (
        select pool, slice_value, bin, first_player as player, games, half_points
        from pairs
        union all
        select pool, slice_value, bin, second_player, games, half_points
        from pairs
    )
    group by pool, slice_value, bin, player
),

by_player as (
    select
        pool,
        slice_value,
        bin,
        count(*) as players,
        sum(games * games) as n_n,
        sum(games * half_points) as n_h,
        sum(half_points * half_points) as h_h
    from players
    group by pool, slice_value, bin
),

by_pair as (
    select
        pool,
        slice_value,
        bin,
        sum(games) as games,
        sum(half_points) as half_points,
        sum(squares) as squares,
        sum(cast(games as hugeint) * games) as n_n,
        sum(cast(games as hugeint) * half_points) as n_h,
        sum(cast(half_points as hugeint) * half_points) as h_h
    from pairs
    group by pool, slice_value, bin
)

select
    by_pair.pool,
    by_pair.slice_value,
    cast(by_pair.bin as tinyint) as bin,
    cast(by_player.players as bigint) as players,
    cast(by_pair.games as double) as games,
    cast(by_pair.half_points as double) as half_points,
    cast(by_pair.squares as double) as squares,
    cast(by_player.n_n as double) as player_n_n,
    cast(by_player.n_h as double) as player_n_h,
    cast(by_player.h_h as double) as player_h_h,
    cast(by_pair.n_n as double) as pair_n_n,
    cast(by_pair.n_h as double) as pair_n_h,
    cast(by_pair.h_h as double) as pair_h_h
from by_pair
inner join by_player
    on
        by_pair.pool is not distinct from by_player.pool
        and by_pair.slice_value = by_player.slice_value
        and by_pair.bin = by_player.bin
order by 1, 2, 3

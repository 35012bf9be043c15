-- Purpose: how much the scores of one player's games, and of one pair's, hang together: the middle of the sandwich of fits and means.
-- Grain: one row a pool, slice value and kind of cluster.
-- Inputs: study_sliced; study_fits (pool, slice_value; intercept and slope of the calibration fit; divisor_slope of the fit without
--   intercept; log_loss and brier_score, the means). NULL where there is no such fit: its sums are then NULL.
-- A game's scores: (result - fitted rate) times 1, the logit, and the logit in points (s0, s1, s2), 0 without a favourite; its losses
--   less their mean (s3, s4). Taken in units of 2^-30 and the products summed in such units, too: whole numbers, so that no order of
--   threads can show.
-- Grain of the sums that are multiplied: cluster is by_player, by_pair or by_game. A player's sum is divided by the share of the games
--   that are not his (at least a half): a fit follows those who play most, and leaves too little of what sets them apart (the third
--   small-sample correction of Bell and McCaffrey 2002, Survey Methodology 28: 169-181, with his share of the games as leverage).
with fitted as (
    select
        study_sliced.pool,
        study_sliced.slice_value,
        study_sliced.first_player,
        study_sliced.second_player,
        study_sliced.logit,
        study_sliced.logit * study_sliced.points_a_logit as points,
        case
            when study_sliced.gap_bin is not null
                then study_sliced.half_points / 2.0 - 1.0 / (1.0 + exp(-(study_fits.intercept + study_fits.slope * study_sliced.logit)))
            else 0.0 * study_fits.slope
        end as residual,
        case
            when study_sliced.gap_bin is not null
                then study_sliced.half_points / 2.0
                - 1.0 / (1.0 + exp(-(study_fits.divisor_slope * study_sliced.logit * study_sliced.points_a_logit)))
            else 0.0 * study_fits.divisor_slope
        end as divisor_residual,
        study_sliced.loss - study_fits.log_loss as loss,
        study_sliced.squared - study_fits.brier_score as squared
    from study_sliced
    inner join study_fits
        on study_sliced.pool is not distinct from study_fits.pool and study_sliced.slice_value = study_fits.slice_value
),

scored as (
    select
        pool,
        slice_value,
        first_player,
        second_player,
        cast(round(residual * 1073741824.0) as bigint) as s0,
        cast(round(residual * logit * 1073741824.0) as bigint) as s1,
        cast(round(divisor_residual * points * 1073741824.0) as bigint) as s2,
        cast(round(loss * 1073741824.0) as bigint) as s3,
        cast(round(squared * 1073741824.0) as bigint) as s4
    from fitted
),

pairs as materialized (
    select
        pool,
        slice_value,
        first_player,
        second_player,
        count(*) as games,
        sum(s0) as s0,
        sum(s1) as s1,
        sum(s2) as s2,
        sum(s3) as s3,
        sum(s4) as s4
    from scored
    group by all
),

players as (
    select
        pool,
        slice_value,
        player,
        -- Each game stands under both of its players.
        1.0 / greatest(0.5, 1.0 - 2 * cast(sum(games) as double) / sum(sum(games)) over (partition by pool, slice_value)) as correction,
        sum(s0) as s0,
        sum(s1) as s1,
        sum(s2) as s2,
        sum(s3) as s3,
        sum(s4) as s4
    from (
        select pool, slice_value, first_player as player, games, s0, s1, s2, s3, s4
        from pairs
        union all
        select pool, slice_value, second_player, games, s0, s1, s2, s3, s4
        from pairs
    )
    group by pool, slice_value, player
),

-- In units of 2^-15, so that a product of two is in units of 2^-30.
clustered as (
    select
        'by_player' as cluster,
        pool,
        slice_value,
        s0 / 32768.0 * correction as s0,
        s1 / 32768.0 * correction as s1,
        s2 / 32768.0 * correction as s2,
        s3 / 32768.0 * correction as s3,
        s4 / 32768.0 * correction as s4
    from players
    union all
    select 'by_pair', pool, slice_value, s0 / 32768.0, s1 / 32768.0, s2 / 32768.0, s3 / 32768.0, s4 / 32768.0
    from pairs
    union all
    select 'by_game', pool, slice_value, s0 / 32768.0, s1 / 32768.0, s2 / 32768.0, s3 / 32768.0, s4 / 32768.0
    from scored
)

select
    pool,
    slice_value,
    cluster,
    count(*) as members,
    cast(sum(cast(round(s0 * s0) as hugeint)) as double) / 1073741824.0 as s0_s0,
    cast(sum(cast(round(s0 * s1) as hugeint)) as double) / 1073741824.0 as s0_s1,
    cast(sum(cast(round(s1 * s1) as hugeint)) as double) / 1073741824.0 as s1_s1,
    cast(sum(cast(round(s2 * s2) as hugeint)) as double) / 1073741824.0 as s2_s2,
    cast(sum(cast(round(s3 * s3) as hugeint)) as double) / 1073741824.0 as s3_s3,
    cast(sum(cast(round(s4 * s4) as hugeint)) as double) / 1073741824.0 as s4_s4
from clustered
group by pool, slice_value, cluster
order by 1, 2, 3

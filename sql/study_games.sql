-- Purpose: each rated game as the calibration study sees it: from its favourite's side, in whole numbers, with its slices.
-- Grain: one row a rated game of the stretch.
-- Inputs: timeline (pool NULL when there is one); study_months; study_versions (rule_version, version_index, divisor, heavy_games);
--   study_stretch (one row: from_us, to_us, microseconds, half-open, whole months).
-- The favourite is the side with the higher expected score before the game; at equality there is none: the bins are NULL, and the two
--   sides got one half point each, whoever won.
-- half_points: what the favourite got (2 win, 1 draw, 0 loss). Units of 2^-40, so that all sums are of integers and no order of threads
--   can show: expected_units (the favourite's expected score), logit_units (its logit), loss_units (log loss), squared_units (Brier).
-- Expected scores are kept 2^-52 away from 0 and 1, where a logit ends.
-- cell: the logit on a grid of 1/256; games of one cell are as good as one expected score to the fits (a slope is
--   off by less than a hundred-thousandth of itself). -1 without a favourite.
-- gap, gap_bin, probability_bin: as in sql/favourite_counts.sql.
-- decile: of the favourite's rating in its month (of the winner's without a favourite). experience: 0 to 3, by the lesser number of
--   games before: under 20, 100, 500, more. winner_heavy, loser_heavy: his k is the reduced one of a heavy week.
with sided as (
    select
        timeline.seq,
        study_months.month_index,
        study_versions.version_index,
        timeline.cube,
        timeline.match_length,
        timeline.is_draw,
        timeline.winner_expected > 0.5 as winner_leads,
        timeline.winner_expected <> 0.5 as has_favourite,
        greatest(timeline.winner_expected, 1.0 - timeline.winner_expected) as probability,
        least(greatest(timeline.winner_expected, 2.220446049250313e-16), 1.0 - 2.220446049250313e-16) as expected,
        abs(timeline.winner_rating_before + coalesce(timeline.advantage, 0.0) - timeline.loser_rating_before) as gap,
        case
            when timeline.winner_expected >= 0.5 then timeline.winner_rating_before
            else timeline.loser_rating_before
        end as rating,
        study_months.* exclude (pool, month_start, month_index),
        least(timeline.winner_games, timeline.loser_games) as games_before,
        coalesce(timeline.winner_recent_games >= study_versions.heavy_games, false) as winner_heavy,
        coalesce(timeline.loser_recent_games >= study_versions.heavy_games, false) as loser_heavy
    from study_stretch
    inner join timeline
        on
            timeline.played_at >= make_timestamp(study_stretch.from_us) at time zone 'UTC'
            and timeline.played_at < make_timestamp(study_stretch.to_us) at time zone 'UTC'
    inner join study_months
        on
            timeline.pool is not distinct from study_months.pool
            and cast(date_trunc('month', make_timestamp(epoch_us(timeline.played_at))) as date) = study_months.month_start
    inner join study_versions on timeline.rule_version = study_versions.rule_version
)

select
    seq,
    month_index,
    version_index,
    cube,
    match_length,
    is_draw,
    winner_heavy,
    loser_heavy,
    cast(
        case
            when is_draw or not has_favourite then 1
            when winner_leads then 2
            else 0
        end as tinyint
    ) as half_points,
    cast(
        1
        + cast(rating > edge_1 as tinyint) + cast(rating > edge_2 as tinyint) + cast(rating > edge_3 as tinyint)
        + cast(rating > edge_4 as tinyint) + cast(rating > edge_5 as tinyint) + cast(rating > edge_6 as tinyint)
        + cast(rating > edge_7 as tinyint) + cast(rating > edge_8 as tinyint) + cast(rating > edge_9 as tinyint)
        as tinyint
    ) as decile,
    cast(
        case
            when games_before < 20 then 0
            when games_before < 100 then 1
            when games_before < 500 then 2
            else 3
        end as tinyint
    ) as experience,
    cast(case when has_favourite then least(floor(gap / 25.0), 20.0) end as tinyint) as gap_bin,
    -- The product may round up to the next bin's edge; the comparison with the edge itself decides.
    cast(
        case
            when has_favourite
                then least(
                    floor(probability * 40.0)
                    - 20.0
                    - case when probability < floor(probability * 40.0) / 40.0 then 1.0 else 0.0 end,
                    19.0
                )
        end as tinyint
    ) as probability_bin,
    cast(case when has_favourite then floor(abs(ln(expected / (1.0 - expected))) * 256.0) else -1.0 end as integer) as cell,
    cast(round(probability * 1099511627776.0) as bigint) as expected_units,
    cast(round(abs(ln(expected / (1.0 - expected))) * 1099511627776.0) as bigint) as logit_units,
    cast(
        round(case when is_draw then -0.5 * (ln(expected) + ln(1.0 - expected)) else -ln(expected) end * 1099511627776.0) as bigint
    ) as loss_units,
    cast(
        round(
            case when is_draw then (0.5 - expected) * (0.5 - expected) else (1.0 - expected) * (1.0 - expected) end * 1099511627776.0
        ) as bigint
    ) as squared_units
from sided

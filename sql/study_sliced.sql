-- Purpose: the games of one slice of the calibration study, each under its value of it.
-- Grain: one row a rated game that has a value.
-- Inputs: study_dyads; $slice (all, version, cube, match_length, strength, heavy, experience or month).
-- Values are named as in sql/study_counts.sql. points_a_logit: thousands of points that one unit of the logit is under the game's rules.
with valued as (
    select
        pool,
        case $slice
            when 'all' then ''
            when 'version' then rule_version
            when 'cube' then cast(cube as varchar)
            when 'match_length' then cast(match_length as varchar)
            when 'strength' then cast(decile as varchar)
            when 'heavy' then case when heavy then 'heavy' else 'usual' end
            when 'experience' then ['0-19', '20-99', '100-499', '500+'][experience + 1]
            when 'month' then month
        end as slice_value,
        first_player,
        second_player,
        gap_bin,
        probability_bin,
        half_points,
        logit_units / 1099511627776.0 as logit,
        divisor / 1000.0 as points_a_logit,
        loss_units / 1099511627776.0 as loss,
        squared_units / 1099511627776.0 as squared
    from study_dyads
)

select *
from valued
where slice_value is not null

-- Purpose: the counts from which every figure of the calibration study without a bootstrap is made; small enough to be kept a month.
-- Grain: one row a pool, month, slice, slice value, divisor, bin of either axis and cell that occurs.
-- Inputs: study_games (the view); study_months; study_versions.
-- A slice whose column the rules do not use has no rows: its column is NULL in every game.
-- All sums are of integers (see sql/study_games.sql for their units): no order of threads can show in them, and months add up.
-- half_logit_sum: of the logit times the half points, so that within a cell no result is taken for another game's.
-- The games are grouped three or four times only, under short keys; the other slices are sums over those groups.
with versions as (
    select count(*) as total
    from study_versions
),

keyed as (
    select
        -- 14 bits of cell (-1 to 36.05 * 256), 6 of each bin, and above them month and version.
        (month_index * versions.total + version_index) * 67108864
        + (cell + 1) * 4096
        + cast(coalesce(gap_bin + 1, 0) as bigint) * 64
        + coalesce(probability_bin + 1, 0) as key,
        cast(winner_heavy or loser_heavy as tinyint) * 4 + experience as habit,
        decile,
        cube,
        match_length,
        is_draw,
        half_points,
        expected_units,
        logit_units,
        loss_units,
        squared_units
    from study_games
    cross join versions
),

grouped as materialized (
    select
        key,
        grouping(habit, decile, cube, match_length) as which,
        habit,
        decile,
        cube,
        match_length,
        count(*) as games,
        count(*) filter (where is_draw) as draws,
        sum(half_points) as half_points,
        sum(expected_units) as expected_sum,
        sum(logit_units) as logit_sum,
        sum(half_points * logit_units) as half_logit_sum,
        sum(loss_units) as loss_sum,
        sum(squared_units) as squared_sum
    from keyed
    group by grouping sets ((key, habit), (key, decile), (key, cube), (key, match_length))
),

sliced as (
    select key, 'all' as slice, '' as slice_value, columns('^(games|draws|.*_points|.*_sum)$')
    from grouped
    where which = 7
    union all
    select key, 'version', study_versions.rule_version, columns('^(games|draws|.*_points|.*_sum)$')
    from grouped
    cross join versions
    inner join study_versions on (key >> 26) % versions.total = study_versions.version_index
    where which = 7
    union all
    select key, 'heavy', case when habit >= 4 then 'heavy' else 'usual' end, columns('^(games|draws|.*_points|.*_sum)$')
    from grouped
    where which = 7
    union all
    select
        key,
        'experience',
        case habit % 4 when 0 then '0-19' when 1 then '20-99' when 2 then '100-499' else '500+' end,
        columns('^(games|draws|.*_points|.*_sum)$')
    from grouped
    where which = 7
    union all
    select key, 'strength', cast(decile as varchar), columns('^(games|draws|.*_points|.*_sum)$')
    from grouped
    where which = 11
    union all
    select key, 'cube', cast(cube as varchar), columns('^(games|draws|.*_points|.*_sum)$')
    from grouped
    where which = 13 and cube is not null
    union all
    select key, 'match_length', cast(match_length as varchar), columns('^(games|draws|.*_points|.*_sum)$')
    from grouped
    where which = 14 and match_length is not null
)

select
    study_months.pool,
    strftime(study_months.month_start, '%Y-%m') as month,
    sliced.slice,
    sliced.slice_value,
    study_versions.divisor,
    cast(nullif((sliced.key >> 6) & 63, 0) - 1 as tinyint) as gap_bin,
    cast(nullif(sliced.key & 63, 0) - 1 as tinyint) as probability_bin,
    cast(((sliced.key >> 12) & 16383) - 1 as integer) as cell,
    cast(sum(sliced.games) as bigint) as games,
    cast(sum(sliced.draws) as bigint) as draws,
    cast(sum(sliced.half_points) as bigint) as half_points,
    cast(sum(sliced.expected_sum) as decimal(38, 0)) as expected_sum,
    cast(sum(sliced.logit_sum) as decimal(38, 0)) as logit_sum,
    cast(sum(sliced.half_logit_sum) as decimal(38, 0)) as half_logit_sum,
    cast(sum(sliced.loss_sum) as decimal(38, 0)) as loss_sum,
    cast(sum(sliced.squared_sum) as decimal(38, 0)) as squared_sum
from sliced
cross join versions
inner join study_months on (sliced.key >> 26) // versions.total = study_months.month_index
inner join study_versions on (sliced.key >> 26) % versions.total = study_versions.version_index
group by 1, 2, 3, 4, 5, 6, 7, 8
order by 1, 2, 3, 4, 5, 6, 7, 8

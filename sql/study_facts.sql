-- Purpose: the site's own findings as numbers that can be kept a month and added up: strongest players, active ratings, weekly swing,
--   reduced k, points made or lost.
-- Grain: one row a pool, month (UTC), rule version, fact and label that occurs.
-- Inputs: timeline; study_months, study_versions; study_player_weeks (reaching at least 31 days further back than $from_us);
--   $from_us, $to_us (microseconds, half-open, whole months); $active_days.
-- Sums are whole numbers (points and expected scores in units of 2^-40): no order of threads can show. `value` holds what does not add
--   up: of several months or versions the last one counts.
-- strongest_decile: sides whose rating before the game was in the month's top decile. strongest_100: games of the hundred players who
--   began the month with the highest ratings (before their first game of it; at a tie who has played more, then by id).
-- reduced_k: count_sum is the games in which one or both sides' k was reduced, and the sides whose k was. net: the sum of both changes of a
--   game, of all games and of those in which the two k differ.
-- active: players with a rated game in the $active_days before the last rated game of the row's month and version, by their ratings
--   after their own last game until then; quantiles are linear between neighbours.
-- week: players by their games in a whole week of the month, and by whether most of them were at a reduced k; the version is that of
--   the week's last game. points_sum: what the week changed, without its sign; squares_sum: its square, in units of 2^-20;
--   count_sum: such weeks of players.
with rated as (
    select
        study_months.month_index,
        study_versions.version_index,
        timeline.seq,
        timeline.played_at,
        timeline.is_draw,
        timeline.winner_expected,
        timeline.winner_rating_before > study_months.edge_9 as winner_strong,
        timeline.loser_rating_before > study_months.edge_9 as loser_strong,
        coalesce(timeline.winner_recent_games >= study_versions.heavy_games, false) as winner_heavy,
        coalesce(timeline.loser_recent_games >= study_versions.heavy_games, false) as loser_heavy,
        timeline.winner_k <> timeline.loser_k as unequal_k,
        cast(round((cast(timeline.winner_change as double) + timeline.loser_change) * 1099511627776.0) as hugeint) as net_units
    from timeline
    inner join study_months
        on
            timeline.pool is not distinct from study_months.pool
            and cast(date_trunc('month', make_timestamp(epoch_us(timeline.played_at))) as date) = study_months.month_start
    inner join study_versions on timeline.rule_version = study_versions.rule_version
    where
        timeline.played_at >= make_timestamp($from_us) at time zone 'UTC'
        and timeline.played_at < make_timestamp($to_us) at time zone 'UTC'
),

totals as materialized (
    select
        month_index,
        version_index,
        winner_strong,
        loser_strong,
        count(*) as games,
        max(seq) as last_seq,
        max(played_at) as last_at,
        sum(case when is_draw then 1 else 2 end) as winner_half_points,
        sum(cast(round(winner_expected * 1099511627776.0) as bigint)) as winner_expected_sum,
        count(*) filter (where winner_heavy or loser_heavy) as heavy_games,
        count(*) filter (where winner_heavy) + count(*) filter (where loser_heavy) as heavy_sides,
        count(*) filter (where unequal_k) as unequal_games,
        sum(net_units) as net_sum,
        coalesce(sum(net_units) filter (where unequal_k), 0) as unequal_sum
    from rated
    group by month_index, version_index, winner_strong, loser_strong
),

ends as materialized (
    select
        totals.month_index,
        totals.version_index,
        study_months.pool,
        study_months.month_start,
        max(totals.last_seq) as last_seq,
        max(totals.last_at) as last_at
    from totals
    inner join study_months on totals.month_index = study_months.month_index
    group by all
),

-- Thirty days reach into the month before, and on the first days of March into the one before that.
reaching as (
    select ends.* exclude (month_start), cast(ends.month_start - to_months(back) as date) as month_start
    from ends
    cross join range(3) as months_back (back)
),

standing as (
    select
        reaching.month_index,
        reaching.version_index,
        weeks.player_id,
        arg_max(weeks.last_rating, weeks.last_seq) as rating
    from reaching
    inner join study_player_weeks as weeks
        on
            reaching.pool is not distinct from weeks.pool
            and reaching.month_start = weeks.month_start
            and reaching.last_seq >= weeks.last_seq
            and weeks.last_at >= reaching.last_at - to_days(cast($active_days as integer))
    group by all
),

active as materialized (
    select
        month_index,
        version_index,
        count(*) as players,
        sum(cast(round(cast(rating as double) * 1099511627776.0) as hugeint)) as rating_sum,
        quantile_cont(cast(rating as double), [0.25, 0.5, 0.75]) as q
    from standing
    group by month_index, version_index
),

player_months as (
    select
        study_months.month_index,
        weeks.player_id,
        row_number() over (
            partition by study_months.month_index
            order by
                arg_min(weeks.first_rating, weeks.first_seq) desc,
                arg_min(weeks.first_games, weeks.first_seq) desc,
                weeks.player_id
        ) as place
    from study_player_weeks as weeks
    inner join study_months
        on weeks.pool is not distinct from study_months.pool and weeks.month_start = study_months.month_start
    group by study_months.month_index, weeks.player_id
),

hundred as (
    select
        study_months.month_index,
        weeks.version_index,
        sum(weeks.games) as games,
        sum(weeks.half_points) as half_points,
        sum(weeks.expected_sum) as expected_sum
    from study_player_weeks as weeks
    inner join study_months
        on weeks.pool is not distinct from study_months.pool and weeks.month_start = study_months.month_start
    inner join player_months
        on study_months.month_index = player_months.month_index and weeks.player_id = player_months.player_id
    where player_months.place <= 100
    group by study_months.month_index, weeks.version_index
),

player_weeks as (
    select
        study_months.month_index,
        arg_max(weeks.version_index, weeks.last_seq) as version_index,
        sum(weeks.games) as games,
        sum(weeks.heavy_games) as heavy_games,
        sum(weeks.points_sum) as points_sum
    from study_player_weeks as weeks
    inner join study_months
        on weeks.pool is not distinct from study_months.pool and weeks.month_start = study_months.month_start
    where weeks.week < 4
    group by study_months.month_index, weeks.player_id, weeks.week
),

swings as (
    select
        month_index,
        version_index,
        concat(
            case
                when games < 10 then '1-9'
                when games < 50 then '10-49'
                when games < 100 then '50-99'
                when games < 300 then '100-299'
                else '300+'
            end,
            case when heavy_games * 2 > games then ' heavy' else ' usual' end
        ) as label,
        sum(games) as games,
        count(*) as players,
        sum(abs(points_sum)) as points_sum,
        sum(cast(round((points_sum / 1099511627776.0) * (points_sum / 1099511627776.0) * 1048576.0) as hugeint)) as squares_sum
    from player_weeks
    group by month_index, version_index, label
),

strong as (
    select
        month_index,
        version_index,
        sum(games * (cast(winner_strong as integer) + cast(loser_strong as integer))) as games,
        sum(
            case when winner_strong then winner_half_points else 0 end
            + case when loser_strong then games * 2 - winner_half_points else 0 end
        ) as half_points,
        sum(
            case when winner_strong then winner_expected_sum else 0 end
            + case when loser_strong then games * 1099511627776 - winner_expected_sum else 0 end
        ) as expected_sum
    from totals
    group by month_index, version_index
),

facts as (
    select
        month_index,
        version_index,
        'strongest_decile' as fact,
        '' as label,
        games,
        half_points as count_sum,
        expected_sum as points_sum,
        0 as squares_sum,
        null as value
    from strong
    where games > 0
    union all
    select month_index, version_index, 'strongest_100', '', games, half_points, expected_sum, 0, null
    from hundred
    union all
    select month_index, version_index, 'reduced_k', 'games', sum(games), sum(heavy_games), 0, 0, null
    from totals
    group by month_index, version_index
    union all
    select month_index, version_index, 'reduced_k', 'sides', sum(games) * 2, sum(heavy_sides), 0, 0, null
    from totals
    group by month_index, version_index
    union all
    select month_index, version_index, 'net', 'all', sum(games), 0, sum(net_sum), 0, null
    from totals
    group by month_index, version_index
    union all
    select month_index, version_index, 'net', 'unequal_k', sum(unequal_games), 0, sum(unequal_sum), 0, null
    from totals
    group by month_index, version_index
    union all
    select month_index, version_index, 'week', label, games, players, points_sum, squares_sum, null
    from swings
    union all
    select month_index, version_index, 'active', 'mean', players, 0, rating_sum, 0, null
    from active
    union all
    select month_index, version_index, 'active', 'median', players, 0, 0, 0, q[2]
    from active
    union all
    select month_index, version_index, 'active', 'width', players, 0, 0, 0, q[3] - q[1]
    from active
)

select
    study_months.pool,
    strftime(study_months.month_start, '%Y-%m') as month,
    study_versions.version_index,
    study_versions.rule_version,
    facts.fact,
    facts.label,
    cast(facts.games as bigint) as games,
    cast(facts.count_sum as bigint) as count_sum,
    cast(facts.points_sum as decimal(38, 0)) as points_sum,
    cast(facts.squares_sum as decimal(38, 0)) as squares_sum,
    cast(facts.value as double) as value
from facts
inner join study_months on facts.month_index = study_months.month_index
inner join study_versions on facts.version_index = study_versions.version_index
order by 1, 2, 3, 5, 6

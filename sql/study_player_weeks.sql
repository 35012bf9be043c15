-- Purpose: what each player did in a week of a month, the base of the statistics about players.
-- Grain: one row a pool, player, month (UTC), rule version and week in which he has a rated game.
-- Inputs: timeline (pool NULL when there is one); study_versions; $from_us, $to_us (microseconds, half-open).
-- week: 0 to 3 are the 1st to 7th, 8th to 14th, 15th to 21st and 22nd to 28th of the month, so that each belongs to one month; 4 is the
--   rest of it, no whole week.
-- first_rating and first_games are before his first game of the row (games only grow), last_rating after his last one. Sums of points
--   and expected scores are whole numbers of 2^-40: no order of threads can show.
with sides as (
    select
        pool,
        seq,
        played_at,
        rule_version,
        winner_id as player_id,
        winner_rating_before as rating,
        winner_change as change,
        winner_expected as expected,
        cast(case when is_draw then 1 else 2 end as tinyint) as half_points,
        winner_games as games_before,
        winner_recent_games as recent_games
    from timeline
    where played_at >= make_timestamp($from_us) at time zone 'UTC' and played_at < make_timestamp($to_us) at time zone 'UTC'
    union all
    select
        pool,
        seq,
        played_at,
        rule_version,
        loser_id,
        loser_rating_before,
        loser_change,
        1.0 - winner_expected,
        cast(case when is_draw then 1 else 0 end as tinyint),
        loser_games,
        loser_recent_games
    from timeline
    where played_at >= make_timestamp($from_us) at time zone 'UTC' and played_at < make_timestamp($to_us) at time zone 'UTC'
)

select
    sides.pool,
    cast(date_trunc('month', make_timestamp(epoch_us(sides.played_at))) as date) as month_start,
    study_versions.version_index,
    cast(least((extract(day from make_timestamp(epoch_us(sides.played_at))) - 1) // 7, 4) as tinyint) as week,
    sides.player_id,
    count(*) as games,
    count(*) filter (where sides.recent_games >= study_versions.heavy_games) as heavy_games,
    sum(sides.half_points) as half_points,
    sum(cast(round(sides.expected * 1099511627776.0) as bigint)) as expected_sum,
    sum(cast(round(cast(sides.change as double) * 1099511627776.0) as hugeint)) as points_sum,
    min(sides.seq) as first_seq,
    arg_min(sides.rating, sides.seq) as first_rating,
    min(sides.games_before) as first_games,
    max(sides.seq) as last_seq,
    max(sides.played_at) as last_at,
    arg_max(cast(sides.rating as double) + sides.change, sides.seq) as last_rating
from sides
inner join study_versions on sides.rule_version = study_versions.rule_version
group by all

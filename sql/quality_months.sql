-- Purpose: games a month.
-- Grain: one row a calendar month in UTC that holds a game.
-- Inputs: quality_games.
select
    strftime(date_trunc('month', make_timestamp(played_us)), '%Y-%m') as month,
    cast(count(*) as bigint) as games,
    cast(count(*) filter (where is_rated) as bigint) as rated
from quality_games
group by date_trunc('month', make_timestamp(played_us))
order by date_trunc('month', make_timestamp(played_us))

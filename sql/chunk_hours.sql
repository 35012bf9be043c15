-- Purpose: the rated games of a large chunk by hour, so that it can be rated in pieces.
-- Grain: one row an hour in UTC that holds a rated game.
-- Inputs: judged; $from_us, $to_us (microseconds, half-open).
select
    epoch_us(date_trunc('hour', make_timestamp(played_us))) as hour_us,
    cast(count(*) as bigint) as games
from judged
where verdict = 'rated' and played_us >= $from_us and played_us < $to_us
group by hour_us
order by hour_us

-- Purpose: how the rated games lie in time, so that a sweep can take them a stretch after the other.
-- Grain: one row an hour in UTC that holds a rated game.
-- Inputs: rule_inputs (the view of sql/rule_inputs.sql).
select
    epoch_us(date_trunc('hour', make_timestamp(played_us))) as hour_us,
    cast(count(*) as bigint) as games
from rule_inputs
group by hour_us
order by hour_us

-- Purpose: how the rated games lie in time, so that a sweep can take them a stretch after the other.
-- Grain: one row an hour in UTC that holds a rated game.
-- Inputs: rule_inputs (the view of sql/rule_inputs.sql).
-- In whole numbers, for no calendar reaches as far as an instant can; % takes the sign of what it divides.
select
    played_us - ((played_us % 3600000000) + 3600000000) % 3600000000 as hour_us,
    cast(count(*) as bigint) as games
from rule_inputs
group by hour_us
order by hour_us

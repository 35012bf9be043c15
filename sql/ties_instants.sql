-- Purpose: the instants at which more than one game ended.
-- Grain: one row an instant.
-- Inputs: timeline (of whole instants).
select
    epoch_us(played_at) as played_us,
    count(*) as games
from timeline
group by played_at
having count(*) > 1

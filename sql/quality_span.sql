-- Purpose: how much there is and from when to when.
-- Grain: one row, also when there is no game (instants are NULL then).
-- Inputs: quality_games; judged (for what lies after the as-of).
-- Units: instants in microseconds since 1970, UTC; a day is a UTC day that holds a game.
select
    cast(count(*) as bigint) as games,
    cast(count(*) filter (where is_rated) as bigint) as rated,
    min(played_us) as first_us,
    max(played_us) as last_us,
    cast(count(distinct date_trunc('day', make_timestamp(played_us))) as bigint) as days,
    (select max(played_us) from judged where verdict = 'held') as last_held_us
from quality_games

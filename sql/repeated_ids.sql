-- Purpose: the game ids that stand more than once.
-- Grain: one row a repeated id.
-- Inputs: staged. Rows without ids or time are refused before copies are looked at, so they do not count here.
select game_id
from staged
where
    game_id is not null
    and winner_id is not null
    and loser_id is not null
    and pool is not null
    and played_us is not null
group by game_id
having count(*) > 1

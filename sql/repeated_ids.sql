-- Purpose: the game ids that stand more than once.
-- Grain: one row a repeated id.
-- Inputs: staged. Rows without ids or time are refused before copies are looked at, so they do not count here.
select game_id
from staged
where is_dated(pool, game_id, winner_id, loser_id, played_us)
group by game_id
having count(*) > 1

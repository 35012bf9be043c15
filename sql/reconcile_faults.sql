-- Purpose: the games with a cause of their own.
-- Grain: one row a player and game (and further row of live).
-- Inputs: marked.
select
    pool,
    make_timestamptz(played_us) as played_at,
    game_id,
    player_id,
    opponent_id,
    before_ours,
    before_live,
    change_ours,
    change_live,
    cause,
    detail,
    also
from marked
where diverges and cause is not null
order by played_us, game_id, copy, player_id

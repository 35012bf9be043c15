-- Purpose: the games whose quality is looked at: what was played, whatever the rules then make of it.
-- Grain: one row a game.
-- Inputs: judged (copies are resolved, aliases applied).
-- Rules: rows without ids or time, voided and held rows and self-plays are no games here; they have their own bins. Games that are
--   refused for a bad value (a mode, a cube) are: their values are what the distributions must show.
select
    pool,
    game_id,
    played_us,
    winner_id,
    loser_id,
    coalesce(is_draw, false) as is_draw,
    mode,
    cube,
    match_length,
    result,
    ended_by,
    verdict = 'rated' as is_rated
from judged
where verdict not in ('missing_id', 'missing_time', 'voided', 'held') and winner_id <> loser_id

-- Purpose: the rated games with the inputs that the rules use.
-- Grain: one row a rated game.
-- Inputs: judged; settings.
-- Inputs that the rules do not use are NULL, so they cannot influence anything; what is missing has its default.
select
    judged.pool,
    judged.game_id,
    judged.played_us,
    judged.winner_id,
    judged.loser_id,
    coalesce(judged.is_draw, false) as is_draw,
    case when settings.uses_cube then coalesce(judged.cube, 1) end as cube,
    case when settings.uses_match_length then judged.match_length end as match_length,
    case when settings.uses_result then coalesce(judged.result, 'single') end as result,
    case when settings.uses_weight then coalesce(judged.weight, 1.0) end as weight,
    case when settings.uses_advantage then coalesce(judged.advantage, 0.0) end as advantage
from judged
cross join settings
where judged.verdict = 'rated'

-- Purpose: every staged row that is left after the copies, with its verdict: the one place where a row's bin is decided.
-- Grain: one row a staged row.
-- Inputs: staged; aliases (alias_id, player_id: resolved, no chains); excluded (player_id); known_modes (mode, is_rated);
--   settings (one row: as_of_us, all_modes, uses_cube, max_cube, uses_match_length, max_match_length, uses_result, uses_weight,
--   uses_advantage, first_rule_us).
-- Rules: the first that matches wins. Aliases come before everything here; the raw ids stay for the list of refused rows.
-- Edges: a game exactly at the as-of is not held; a game exactly at the first version's instant has a version.
select
    staged.file_no,
    staged.row_no,
    staged.pool,
    staged.game_id,
    staged.played_us,
    coalesce(winner_alias.player_id, staged.winner_id) as winner_id,
    coalesce(loser_alias.player_id, staged.loser_id) as loser_id,
    staged.winner_id as raw_winner_id,
    staged.loser_id as raw_loser_id,
    staged.mode,
    staged.cube,
    staged.match_length,
    staged.result,
    staged.ended_by,
    staged.is_draw,
    staged.voided,
    staged.revision,
    staged.advantage,
    staged.weight,
    case
        when
            staged.game_id is null or staged.winner_id is null or staged.loser_id is null or staged.pool is null
            then 'missing_id'
        when staged.played_us is null then 'missing_time'
        when coalesce(staged.voided, false) then 'voided'
        when staged.played_us > settings.as_of_us then 'held'
        when not settings.all_modes and known_modes.mode is null then 'unknown_mode'
        when not settings.all_modes and not known_modes.is_rated then 'unrated'
        when winner_excluded.player_id is not null or loser_excluded.player_id is not null then 'unrated'
        when
            coalesce(winner_alias.player_id, staged.winner_id) = coalesce(loser_alias.player_id, staged.loser_id)
            then 'self_play'
        when
            settings.uses_cube
            and (
                coalesce(staged.cube, 1) < 1
                or coalesce(staged.cube, 1) > settings.max_cube
                or (coalesce(staged.cube, 1) & (coalesce(staged.cube, 1) - 1)) <> 0
            )
            then 'bad_cube'
        when
            settings.uses_match_length
            and (
                staged.match_length is null
                or staged.match_length < 1
                or staged.match_length > settings.max_match_length
            )
            then 'bad_match_length'
        when
            settings.uses_result and coalesce(staged.result, 'single') not in ('single', 'gammon', 'backgammon')
            then 'bad_result'
        when
            settings.uses_weight
            and (not isfinite(coalesce(staged.weight, 1.0)) or coalesce(staged.weight, 1.0) < 0.0)
            then 'bad_weight'
        when settings.uses_advantage and not isfinite(coalesce(staged.advantage, 0.0)) then 'bad_advantage'
        when staged.played_us < settings.first_rule_us then 'before_first_rule_version'
        else 'rated'
    end as verdict
from staged
cross join settings
left join aliases as winner_alias on staged.winner_id = winner_alias.alias_id
left join aliases as loser_alias on staged.loser_id = loser_alias.alias_id
left join
    excluded as winner_excluded
    on coalesce(winner_alias.player_id, staged.winner_id) = winner_excluded.player_id
left join
    excluded as loser_excluded
    on coalesce(loser_alias.player_id, staged.loser_id) = loser_excluded.player_id
left join known_modes on coalesce(staged.mode, 'ranked') = known_modes.mode

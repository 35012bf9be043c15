-- Purpose: the rated games of a stretch of time in their total order, with every term of the rules that does not depend on a rating.
-- Grain: one row a rated game.
-- Inputs: judged; player_index; rule_versions (one row a version, unique from_us); settings; $from_us, $to_us (microseconds,
--   half-open). The stretch may start before the first game to be rated: the counting window needs what came before.
-- Order: (played_us, game_id): integers by value, text by its UTF-8 bytes. Never by time alone.
-- Edges: a version is in force in [from, next from): ASOF takes the last from_us at or before the game.
-- Inputs that the rules do not use are NULL, so they cannot influence anything.
with games as (
    select
        pool,
        game_id,
        played_us,
        winner_id,
        loser_id,
        coalesce(is_draw, false) as is_draw,
        case when settings.uses_cube then coalesce(cube, 1) end as cube,
        case when settings.uses_match_length then match_length end as match_length,
        case when settings.uses_result then coalesce(result, 'single') end as result,
        case when settings.uses_weight then coalesce(weight, 1.0) end as weight,
        case when settings.uses_advantage then coalesce(advantage, 0.0) end as advantage
    from judged
    cross join settings
    where verdict = 'rated' and played_us >= $from_us and played_us < $to_us
),

termed as (
    select
        games.*,
        rule_versions.version_index,
        rule_versions.k,
        case
            when rule_versions.divide_by_sqrt_length then rule_versions.divisor / sqrt(games.match_length)
            else rule_versions.divisor
        end as divisor,
        rule_versions.stake_base
        * case rule_versions.cube_rule
            when 'times' then cast(games.cube as double)
            when 'log2' then 1.0 + log2(games.cube) / rule_versions.cube_doublings
            else 1.0
        end
        * case when rule_versions.stake_by_sqrt_length then sqrt(games.match_length) else 1.0 end
        * case games.result
            when 'gammon' then rule_versions.gammon_factor
            when 'backgammon' then rule_versions.backgammon_factor
            when 'single' then rule_versions.single_factor
            else 1.0
        end
        * case when rule_versions.stake_by_weight then games.weight else 1.0 end as stake
    from games
    asof inner join rule_versions on games.played_us >= rule_versions.from_us
)

select
    termed.pool,
    termed.game_id,
    termed.played_us,
    termed.winner_id,
    termed.loser_id,
    termed.is_draw,
    cast(termed.cube as integer) as cube,
    cast(termed.match_length as integer) as match_length,
    termed.result,
    termed.weight,
    termed.advantage,
    cast(termed.version_index as smallint) as version_index,
    termed.k,
    termed.divisor,
    termed.stake,
    winners.player_index as winner_index,
    losers.player_index as loser_index
from termed
inner join player_index as winners on termed.pool = winners.pool and termed.winner_id = winners.player_id
inner join player_index as losers on termed.pool = losers.pool and termed.loser_id = losers.player_id
order by termed.played_us, termed.game_id

-- Purpose: the rated games of a stretch of time in their total order, with every term of the rules that does not depend on a rating.
-- Grain: one row a rated game.
-- Inputs: rule_terms (the view of sql/rule_terms.sql over the rated games); player_index; $from_us, $to_us (microseconds, half-open).
--   The stretch may start before the first game to be rated: the counting window needs what came before.
-- Order: (played_us, game_id): integers by value, text by its UTF-8 bytes. Never by time alone.
select
    rule_terms.pool,
    rule_terms.game_id,
    rule_terms.played_us,
    rule_terms.winner_id,
    rule_terms.loser_id,
    rule_terms.is_draw,
    cast(rule_terms.cube as integer) as cube,
    cast(rule_terms.match_length as integer) as match_length,
    rule_terms.result,
    rule_terms.weight,
    rule_terms.advantage,
    cast(rule_terms.version_index as smallint) as version_index,
    rule_terms.k,
    rule_terms.divisor,
    rule_terms.stake,
    winners.player_index as winner_index,
    losers.player_index as loser_index
from rule_terms
inner join player_index as winners on rule_terms.pool = winners.pool and rule_terms.winner_id = winners.player_id
inner join player_index as losers on rule_terms.pool = losers.pool and rule_terms.loser_id = losers.player_id
where rule_terms.played_us >= $from_us and rule_terms.played_us < $to_us
order by rule_terms.played_us, rule_terms.game_id

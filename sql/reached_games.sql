-- Purpose: the rated games before a stretch that its counting window can reach, from the stored rows.
-- Grain: one row a game, in the total order.
-- Inputs: rule_inputs (the view of sql/rule_inputs.sql); player_index; $from_us, $to_us (microseconds, half-open).
-- Order: as in sql/chunk_games.sql, of which this is the part that counting needs.
select
    rule_inputs.played_us,
    winners.player_index as winner_index,
    losers.player_index as loser_index
from rule_inputs
inner join player_index as winners on rule_inputs.pool = winners.pool and rule_inputs.winner_id = winners.player_id
inner join player_index as losers on rule_inputs.pool = losers.pool and rule_inputs.loser_id = losers.player_id
where rule_inputs.played_us >= $from_us and rule_inputs.played_us < $to_us
order by rule_inputs.played_us, rule_inputs.game_id

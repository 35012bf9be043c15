-- Purpose: the first game, before a place in the order, in which two runs say something else of one player.
-- Grain: one row, or none.
-- Inputs: diverged (sql/explain_diverged.sql); $pool (NULL where there is one pool only), $player, $played_us and $game: the place.
select *
from diverged
where
    (played_us < $played_us or (played_us = $played_us and game_id < $game))
    and pool is not distinct from $pool
    and case
        when kind = 'carried' then (winner_id = $player and winner_differs) or (loser_id = $player and loser_differs)
        else $player in (winner_id, loser_id, winner_before, loser_before)
    end
order by played_us, game_id
limit 1

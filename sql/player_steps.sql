-- Purpose: one player's steps: his games from his own side, and what moved his rating without a game.
-- Grain: one row a step.
-- Inputs: player_timeline; $pool (NULL where there is one pool only), $player.
-- Order: an adjustment of an instant, then its awards, then its games.
select
    seq,
    epoch_us(played_at) as played_us,
    game_id,
    opponent_id,
    score,
    rating_before,
    change,
    rating_after,
    expected,
    k,
    stake,
    games,
    recent_games,
    experience,
    rule_version,
    award_id,
    points
from player_timeline
where player_id = $player and pool is not distinct from $pool
order by played_us, (seq is not null), award_id nulls first, seq

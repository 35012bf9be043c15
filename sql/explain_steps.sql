-- Purpose: a few games from their players' sides.
-- Grain: one row a game and player.
-- Inputs: player_timeline; $seqs (list of positions).
select
    player_id,
    seq,
    epoch_us(played_at) as played_us,
    game_id,
    recent_games,
    rating_after
from player_timeline
where seq in (select unnest($seqs))

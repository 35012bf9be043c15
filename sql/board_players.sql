-- Purpose: all players as they stood at an instant.
-- Grain: one row a pool and player.
-- Inputs: state_players (pool, player_id, rating, games, wins, losses, draws, last_us: at the end of a chunk of time), board_steps
--   (what they did from there on up to the instant).
select
    coalesce(board_steps.pool, state_players.pool) as pool,
    coalesce(board_steps.player_id, state_players.player_id) as player_id,
    coalesce(board_steps.rating, state_players.rating) as rating,
    coalesce(state_players.games, 0) + coalesce(board_steps.games, 0) as games,
    coalesce(state_players.wins, 0) + coalesce(board_steps.wins, 0) as wins,
    coalesce(state_players.losses, 0) + coalesce(board_steps.losses, 0) as losses,
    coalesce(state_players.draws, 0) + coalesce(board_steps.draws, 0) as draws,
    make_timestamptz(coalesce(board_steps.last_us, state_players.last_us)) as last_played_at
from state_players
full join board_steps
    on state_players.pool is not distinct from board_steps.pool and state_players.player_id = board_steps.player_id

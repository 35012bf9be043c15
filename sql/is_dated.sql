-- Purpose: whether a row has every id and a time, and so belongs to a chunk of time and may be a copy; the others are refused.
-- Grain: a macro, made once a connection: is_dated(pool, game_id, winner_id, loser_id, played_us).
create or replace temp macro is_dated(a_pool, a_game, a_winner, a_loser, us) as (
    a_pool is not null and a_game is not null and a_winner is not null and a_loser is not null and us is not null
)

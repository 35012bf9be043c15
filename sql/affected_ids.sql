-- Purpose: the games of which a row has come, or is no longer in force: only their copies have to be looked at again.
-- Grain: one row a game id.
-- Inputs: incoming (rows that were read now), withdrawn (stored rows no longer in force), what_if_voided (game ids; empty but in a
--   what-if).
-- id_key: see sql/chunk_rows.sql.
with affected as (
    select game_id
    from incoming
    where is_dated(pool, game_id, winner_id, loser_id, played_us)
    union
    select game_id
    from withdrawn
    where is_dated
    union
    select game_id
    from what_if_voided
)

select
    game_id,
    hash(game_id) as id_key
from affected
order by game_id

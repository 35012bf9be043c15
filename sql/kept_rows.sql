-- Purpose: every row that was read, with what became of it among its copies: what a run keeps so that a later one can go on.
-- Grain: one row a row read.
-- Inputs: staged (rows that stay), set_aside (rows that do not, with their verdict).
-- is_dated: the row has every id and a time, so it belongs to a chunk of time; the others are refused and kept apart.
with kept as (
    select *, 'stays' as standing
    from staged
    union all by name
    select * rename (verdict as standing)
    from set_aside
)

select
    kept.*,
    is_dated(kept.pool, kept.game_id, kept.winner_id, kept.loser_id, kept.played_us) as is_dated
from kept

-- Purpose: the rows of a stretch of time as a run keeps them, in an order that depends on nothing but them.
-- Grain: one row a kept row.
-- id_key: what a text id is looked up by (`rowstore.key_check` says whether the hash is still the one that it was).
-- Inputs: kept_rows; $from_us, $to_us (microseconds, half-open).
select
    pool,
    game_id,
    played_us,
    winner_id,
    loser_id,
    mode,
    cube,
    match_length,
    result,
    ended_by,
    is_draw,
    voided,
    revision,
    advantage,
    weight,
    file_no,
    row_no,
    standing,
    hash(game_id) as id_key
from kept_rows
where is_dated and played_us >= $from_us and played_us < $to_us
order by played_us, game_id, file_no, row_no

-- Purpose: the rows that belong to no chunk of time (an id or the time is missing), as a run keeps them.
-- Grain: one row a kept row.
-- Inputs: kept_rows.
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
    standing
from kept_rows
where not is_dated
order by file_no, row_no

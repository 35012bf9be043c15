-- Purpose: the stored rows of the affected games that are still in force.
-- Grain: one row a stored row.
-- Inputs: stored_rows (of the chunks that may hold one), affected (game_id), withdrawn_days.
select stored_rows.*
from stored_rows
semi join affected on stored_rows.game_id = affected.game_id
anti join withdrawn_days
    on stored_rows.file_no = withdrawn_days.file_no and utc_day(stored_rows.played_us) = withdrawn_days.day
where stored_rows.is_dated

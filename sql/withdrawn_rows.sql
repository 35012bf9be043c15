-- Purpose: the stored rows that are no longer in force.
-- Grain: one row a stored row.
-- Inputs: stored_rows (of the chunks concerned, and those that belong to no chunk: is_dated false), withdrawn_days.
select stored_rows.*
from stored_rows
semi join withdrawn_days
    on
        stored_rows.file_no = withdrawn_days.file_no
        and case when stored_rows.is_dated then utc_day(stored_rows.played_us) end is not distinct from withdrawn_days.day

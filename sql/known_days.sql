-- Purpose: the days of a file that was written anew on which it says, row for row, what it said before.
-- Grain: one row a file and day; day NULL for rows that belong to no chunk of time.
-- Inputs: file_days_before (of the run before), incoming_days (of the files that were read now).
select
    incoming_days.file_no,
    incoming_days.day
from incoming_days
inner join file_days_before
    on
        incoming_days.file_no = file_days_before.file_no
        and incoming_days.day is not distinct from file_days_before.day
        and incoming_days.row_count = file_days_before.row_count
        and incoming_days.last_us is not distinct from file_days_before.last_us
        and incoming_days.digest = file_days_before.digest
order by incoming_days.file_no, incoming_days.day

-- Purpose: the days of a file whose stored rows are no longer in force: the file was written anew with other rows there, or is gone.
-- Grain: one row a file and day; day NULL for rows that belong to no chunk of time.
-- Inputs: file_days_before (of the run before), incoming_days (of the files that were read now), rewritten (file_no of files that were
--   written anew or are gone).
select
    file_days_before.file_no,
    file_days_before.day
from file_days_before
semi join rewritten on file_days_before.file_no = rewritten.file_no
left join incoming_days
    on
        file_days_before.file_no = incoming_days.file_no
        and file_days_before.day is not distinct from incoming_days.day
where
    incoming_days.digest is distinct from file_days_before.digest
    or incoming_days.row_count is distinct from file_days_before.row_count
    or incoming_days.last_us is distinct from file_days_before.last_us
order by file_days_before.file_no, file_days_before.day

-- Purpose: the days whose stored rows are not what they were: a row came, is no longer in force, or stands otherwise among its copies.
-- Grain: one row a day; NULL for rows that belong to no chunk of time.
-- Inputs: incoming_days, known_days, withdrawn_days; copies (stored rows of affected games, with their standing before), set_aside (with
--   their verdict now).
with restanding as (
    select utc_day(copies.played_us) as day
    from copies
    left join set_aside on copies.file_no = set_aside.file_no and copies.row_no = set_aside.row_no
    where copies.standing <> coalesce(set_aside.verdict, 'stays')
),

come as (
    select incoming_days.day
    from incoming_days
    left join known_days
        on incoming_days.file_no = known_days.file_no and incoming_days.day is not distinct from known_days.day
    where known_days.file_no is null
)

select day
from come
union
select day
from withdrawn_days
union
select day
from restanding
order by day

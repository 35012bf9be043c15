-- Purpose: how many rows of each file are refused, so that a night's rubbish is not hidden by years of clean history.
-- Grain: one row a game file that has a refused row.
-- Inputs: judged, conflicting.
with refused as (
    select file_no
    from judged
    where verdict not in ('rated', 'unrated', 'voided', 'held')
    union all
    select file_no
    from conflicting
)

select file_no, cast(count(*) as bigint) as refused_rows
from refused
group by file_no
order by file_no

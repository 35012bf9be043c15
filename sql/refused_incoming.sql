-- Purpose: how many of the rows that came now are refused.
-- Grain: one row.
-- Inputs: judged, conflicting, incoming.
with refused as (
    select file_no, row_no
    from judged
    where verdict not in ('rated', 'unrated', 'voided', 'held')
    union all
    select file_no, row_no
    from conflicting
)

select cast(count(*) as bigint) as refused_rows
from refused
semi join incoming on refused.file_no = incoming.file_no and refused.row_no = incoming.row_no

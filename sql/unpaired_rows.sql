-- Purpose: the first row that two tables do not hold equally often, whatever the order of their rows.
-- Grain: one row, or none when the two are equal as multisets.
-- Inputs: left_rows, right_rows: the same columns in the same order, none of them a float.
-- Rules: NULL is equal to NULL; `surplus` is how often more the row stands in left_rows (negative: in right_rows).
-- Ties: of several such rows the first by its columns from left to right.
with counted as (
    select *, 1 as side
    from left_rows
    union all
    select *, -1 as side
    from right_rows
),

unpaired as (
    select * exclude (side), cast(sum(side) as bigint) as surplus
    from counted
    group by all
    having sum(side) <> 0
)

select *
from unpaired
order by all
limit 1

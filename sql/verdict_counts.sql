-- Purpose: how many rows each verdict has.
-- Grain: one row a verdict that occurs.
-- Inputs: judged.
select verdict, cast(count(*) as bigint) as row_count
from judged
group by verdict
order by verdict

-- Purpose: the first instant at which the applied awards differ from those of the run before.
-- Grain: one row; NULL when they do not differ.
-- Inputs: awards_judged; awards_before (the table awards of the run before, pool '' when there is one pool only; adjustments have no
--   award_id).
with before as (
    select pool, award_id, epoch_us(awarded_at) as awarded_us, player_id, cast(points as double) as points, reason
    from awards_before
    where award_id is not null
),

now as (
    select pool, award_id, awarded_us, player_id, points, reason
    from awards_judged
    where verdict = 'applied'
)

select min(awarded_us) as first_us
from (
    (select * from before except all select * from now)
    union all
    (select * from now except all select * from before)
)

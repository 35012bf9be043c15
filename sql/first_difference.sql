-- Purpose: the first instant at which the rated games differ between two states of the affected games.
-- Grain: one row; NULL when they do not differ.
-- Inputs: rated_before, rated_after: of the affected games, with the inputs that the rules use (see sql/rule_inputs.sql).
with gone as (
    select * from rated_before
    except all
    select * from rated_after
),

come as (
    select * from rated_after
    except all
    select * from rated_before
)

select min(played_us) as first_us
from (
    select played_us
    from gone
    union all
    select played_us
    from come
)

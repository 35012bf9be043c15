-- Purpose: the longest stretches of time without a game.
-- Grain: one row a stretch, the $shown longest, each between two neighbouring instants with games.
-- Inputs: quality_games; $shown; $long_us (microseconds).
-- long_gaps: how many stretches of all are longer than $long_us. Differences are taken as hugeint: two int64 instants can be further apart
--   than an int64 holds.
-- Ties: of equally long stretches the earlier comes first.
with instants as (
    select distinct played_us
    from quality_games
),

steps as (
    select
        lag(played_us) over (order by played_us) as from_us,
        played_us as to_us
    from instants
),

gaps as (
    select
        from_us,
        to_us,
        cast(to_us as hugeint) - cast(from_us as hugeint) as gap_us
    from steps
    where from_us is not null
),

counted as (
    select cast(count(*) filter (where gap_us > $long_us) as bigint) as long_gaps
    from gaps
)

select
    gaps.from_us,
    gaps.to_us,
    cast(gaps.gap_us as double) / 1000000.0 as gap_s,
    counted.long_gaps
from gaps
cross join counted
order by gaps.gap_us desc, gaps.from_us asc
limit $shown

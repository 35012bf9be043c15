-- Purpose: the favourites' results counted once; every curve and rate is summed up from here.
-- Grain: one row a chunk, pool, gap bin and probability bin that occurs.
-- Inputs: timeline_part (a stretch of the timeline, with chunk_us: first instant of the chunk; pool is NULL when there is
--   one pool only).
-- The favourite is the side with the higher expected score before the game; at equality there is none and the game is left out.
-- half_points: what the favourites got, in half points (2 win, 1 draw, 0 loss). expected_sum: their expected scores in units of 2^-40.
--   Both are integers, so no order of threads can show in them.
-- gap: points between the two sides, advantage included. Bins are half-open from below; the last gap bin (20) is open above, the last
--   probability bin (19) closed.
with sided as (
    select
        chunk_us,
        pool,
        case
            when is_draw then 1
            when winner_expected > 0.5 then 2
            else 0
        end as half_points,
        abs(winner_rating_before + coalesce(advantage, 0.0) - loser_rating_before) as gap,
        greatest(winner_expected, 1.0 - winner_expected) as probability
    from timeline_part
    where winner_expected <> 0.5
),

binned as (
    select
        chunk_us,
        pool,
        half_points,
        cast(round(probability * 1099511627776.0) as bigint) as expected_units,
        cast(least(floor(gap / 25.0), 20.0) as integer) as gap_bin,
        -- The product may round up to the next bin's edge; the comparison with the edge itself decides.
        cast(
            least(
                floor(probability * 40.0)
                - 20.0
                - case when probability < floor(probability * 40.0) / 40.0 then 1.0 else 0.0 end,
                19.0
            ) as integer
        ) as probability_bin
    from sided
)

select
    chunk_us,
    pool,
    gap_bin,
    probability_bin,
    cast(count(*) as bigint) as games,
    cast(sum(half_points) as bigint) as half_wins,
    cast(sum(cast(expected_units as hugeint)) as decimal(38, 0)) as expected_sum
from binned
group by chunk_us, pool, gap_bin, probability_bin
order by chunk_us, pool, gap_bin, probability_bin

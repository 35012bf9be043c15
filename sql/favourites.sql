-- Purpose: each rated game seen from its favourite, the side with the higher expected score before the game.
-- Grain: one row a rated game that has a favourite; at equality there is none and the game is left out.
-- Inputs: timeline (pool is NULL when the run has one pool only).
-- half_points: what the favourite got, in half points (2 win, 1 draw, 0 loss). expected_units: its expected score in units of 2^-40.
-- gap: points between the two sides, advantage included. The bins are half-open from below; the last gap bin (20) is open above, the
--   last probability bin (19) closed.
with sided as (
    select
        pool,
        seq,
        played_at,
        rule_version,
        winner_expected > 0.5 as winner_is_favourite,
        is_draw,
        abs(winner_rating_before + coalesce(advantage, 0.0) - loser_rating_before) as gap,
        greatest(winner_expected, 1.0 - winner_expected) as probability
    from timeline
    where winner_expected <> 0.5
)

select
    pool,
    seq,
    played_at,
    rule_version,
    case when is_draw then 1 when winner_is_favourite then 2 else 0 end as half_points,
    gap,
    probability,
    cast(round(probability * 1099511627776.0) as bigint) as expected_units,
    cast(least(floor(gap / 25.0), 20.0) as integer) as gap_bin,
    -- The quotient may round up to the next bin's edge; the comparison with the edge itself decides.
    cast(least(floor(probability * 40.0) - 20.0, 19.0) as integer)
    - case when probability < (floor(probability * 40.0)) / 40.0 then 1 else 0 end as probability_bin
from sided

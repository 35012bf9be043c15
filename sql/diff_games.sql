-- Purpose: the games that are not the same in two runs, with both sides' ratings and changes in each.
-- Grain: one row a game that only one run has, or that moved anybody otherwise, other players, or at another instant.
-- Inputs: timeline_a, timeline_b (pool NULL when there is one only; files that both runs share may be left out of both).
-- Edges: ratings are compared as float64, in which whole ratings are exact; what only one run has is NULL in the other's columns.
select
    coalesce(a.game_id, b.game_id) as game_id,
    epoch_us(a.played_at) as played_a,
    epoch_us(b.played_at) as played_b,
    a.pool as pool_a,
    b.pool as pool_b,
    a.winner_id as winner_a,
    b.winner_id as winner_b,
    a.loser_id as loser_a,
    b.loser_id as loser_b,
    cast(a.winner_rating_before as double) as winner_before_a,
    cast(b.winner_rating_before as double) as winner_before_b,
    cast(a.loser_rating_before as double) as loser_before_a,
    cast(b.loser_rating_before as double) as loser_before_b,
    cast(a.winner_change as double) as winner_change_a,
    cast(b.winner_change as double) as winner_change_b,
    cast(a.loser_change as double) as loser_change_a,
    cast(b.loser_change as double) as loser_change_b
from timeline_a as a
full join timeline_b as b on a.game_id = b.game_id
where
    a.played_at is distinct from b.played_at
    or a.pool is distinct from b.pool
    or a.winner_id is distinct from b.winner_id
    or a.loser_id is distinct from b.loser_id
    or cast(a.winner_rating_before as double) is distinct from cast(b.winner_rating_before as double)
    or cast(a.loser_rating_before as double) is distinct from cast(b.loser_rating_before as double)
    or cast(a.winner_change as double) is distinct from cast(b.winner_change as double)
    or cast(a.loser_change as double) is distinct from cast(b.loser_change as double)

-- Purpose: what players did in a stretch of time: how many games, and where their ratings stood after it.
-- Grain: one row a pool and player who did anything.
-- Inputs: player_timeline (pool NULL where there is one pool only); $from_us, $to_us (microseconds, both included).
-- Ties: of one instant the adjustment comes first, then its awards by id, then its games; the last step decides the rating.
select
    pool,
    player_id,
    arg_max(rating_after, row(epoch_us(played_at), seq is not null, award_id is not null, award_id, seq)) as rating,
    cast(count(seq) as integer) as games,
    cast(count(seq) filter (where score = 1.0) as integer) as wins,
    cast(count(seq) filter (where score = 0.0) as integer) as losses,
    cast(count(seq) filter (where score = 0.5) as integer) as draws,
    max(epoch_us(played_at)) filter (where seq is not null) as last_us
from player_timeline
where epoch_us(played_at) >= $from_us and epoch_us(played_at) <= $to_us
group by pool, player_id

-- Purpose: games that look like one game sent twice: the same pair, the same result, another id, little time between them.
-- Grain: one row a suspected second submit with the game before it, the $shown first in time.
-- Inputs: quality_games (ids are unique there); $within_us (microseconds), $shown.
-- Rules: the same winner and loser of a pool; of a draw the two sides in either order. A game is compared with the pair's game just
--   before it (in the total order), so three submits of one game are two rows.
-- Edges: exactly $within_us apart is within. total, total_rated, pairs: of all, not only of those shown.
with sided as (
    select
        pool,
        game_id,
        played_us,
        is_draw,
        is_rated,
        case when is_draw then least(winner_id, loser_id) else winner_id end as winner_id,
        case when is_draw then greatest(winner_id, loser_id) else loser_id end as loser_id
    from quality_games
),

stepped as (
    select
        *,
        lag(game_id) over result_of_pair as earlier_game_id,
        lag(played_us) over result_of_pair as earlier_us
    from sided
    window result_of_pair as (partition by pool, winner_id, loser_id, is_draw order by played_us, game_id)
),

suspected as (
    select *
    from stepped
    where cast(played_us as hugeint) - cast(earlier_us as hugeint) <= $within_us
),

counted as (
    select
        count(*) as total,
        count(*) filter (where is_rated) as total_rated,
        count(distinct row(pool, winner_id, loser_id)) as pairs
    from suspected
)

select
    suspected.pool,
    suspected.earlier_game_id,
    suspected.game_id,
    suspected.winner_id,
    suspected.loser_id,
    suspected.is_draw,
    suspected.played_us,
    cast(suspected.played_us - suspected.earlier_us as double) / 1000000.0 as apart_s,
    cast(counted.total as bigint) as total,
    cast(counted.total_rated as bigint) as total_rated,
    cast(counted.pairs as bigint) as pairs
from suspected
cross join counted
order by suspected.played_us, suspected.game_id
limit $shown

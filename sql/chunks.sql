-- Purpose: the chunks of time that hold rated games, with their edges, their size and a digest of their content.
-- Grain: one row a calendar month, week (from Monday) or day in UTC that holds a rated game.
-- Inputs: judged; $unit ('month', 'week' or 'day').
-- The digest is a sum of row hashes: it does not depend on the order, and two equal rows do not cancel each other.
with rated as (
    select *, date_trunc($unit, make_timestamp(played_us)) as chunk_start
    from judged
    where verdict = 'rated'
)

select
    epoch_us(chunk_start) as from_us,
    epoch_us(chunk_start + case $unit when 'month' then interval 1 month when 'week' then interval 7 days else interval 1 day end)
        as to_us,
    cast(count(*) as bigint) as games,
    printf(
        '%032x',
        sum(
            cast(
                hash(
                    pool, game_id, played_us, winner_id, loser_id, mode, cube, match_length, result, is_draw, advantage, weight
                ) as hugeint
            )
        )
    ) as digest
from rated
group by chunk_start
order by chunk_start

-- Purpose: how many rows of each UTC day have each verdict, with a digest of the rated games' content.
-- Grain: one row a day and verdict that occurs; day NULL for rows that belong to no chunk of time (an id or the time is missing).
-- Inputs: judged, set_aside (copies that do not stay, with their verdict).
-- The digest is a sum of row hashes: it does not depend on the order, and two equal rows do not cancel each other. NULL unless rated.
with known as (
    select
        played_us,
        verdict,
        case
            when verdict = 'rated'
                then
                    cast(
                        hash(
                            pool, game_id, played_us, winner_id, loser_id, mode, cube, match_length, result, is_draw, advantage, weight
                        ) as hugeint
                    )
        end as content
    from judged
    union all
    select played_us, verdict, null
    from set_aside
)

select
    case when verdict not in ('missing_id', 'missing_time') then utc_day(played_us) end as day,
    verdict,
    cast(count(*) as bigint) as row_count,
    printf('%032x', sum(content)) as digest
from known
group by day, verdict
order by day, verdict

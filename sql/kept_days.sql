-- Purpose: how many rows each file has of each UTC day, the last instant of them and a digest: what changed in a file written anew.
-- Grain: one row a file and day; day NULL for rows that belong to no chunk of time.
-- Inputs: kept_rows.
-- The digest is two sums of 64-bit row hashes, place included, the second over the columns the other way round: it does not depend
--   on the order of reading, and equal rows do not cancel each other.
select
    file_no,
    case when is_dated then utc_day(played_us) end as day,
    cast(count(*) as bigint) as row_count,
    max(played_us) as last_us,
    printf(
        '%032x%032x',
        sum(
            cast(
                hash(
                    row_no, pool, game_id, played_us, winner_id, loser_id, mode, cube, match_length, result, ended_by, is_draw, voided,
                    revision, advantage, weight
                ) as hugeint
            )
        ),
        sum(
            cast(
                hash(
                    'again', weight, advantage, revision, voided, is_draw, ended_by, result, match_length, cube, mode, loser_id, winner_id,
                    played_us, game_id, pool, row_no
                ) as hugeint
            )
        )
    ) as digest
from kept_rows
group by file_no, day
order by file_no, day

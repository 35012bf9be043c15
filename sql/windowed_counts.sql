-- Purpose: how many rated games each side had in the window before each game, and the k that follows from it.
-- Grain: one row a game and side (0 winner, 1 loser), from position $first_slot on: what lies before is only counted.
-- Inputs: ordered_games (slot: position in the total order from 0, played_us, winner_index, loser_index, version_index), which
--   starts at least a window before the first game that matters; rule_versions; $window_us (microseconds); $first_slot.
-- Ties: of games at the same instant those earlier in the total order count; the frame therefore runs over the position, not over time
--   (a RANGE frame over time up to CURRENT ROW would count later games of the instant, EXCLUDE GROUP would drop earlier ones).
-- Edges: a game exactly $window_us old counts, so the frame starts at the first position that is not older; the game itself
--   is in the frame and is taken off again.
-- Both roles count: the window is by player, not by winner.
with instants as (
    select played_us, max(slot) as last_slot
    from ordered_games
    group by played_us
),

reaching as (
    select
        games.slot,
        games.winner_index,
        games.loser_index,
        games.version_index,
        games.slot - coalesce(older.last_slot + 1, 0) as reach
    from ordered_games as games
    asof left join instants as older on older.played_us < games.played_us - $window_us
),

sides as (
    select slot, cast(0 as tinyint) as side, winner_index as player_index, version_index, reach
    from reaching
    union all
    select slot, cast(1 as tinyint), loser_index, version_index, reach
    from reaching
),

counted as (
    select
        slot,
        side,
        version_index,
        count(*) over (
            partition by player_index order by slot range between reach preceding and current row
        ) - 1 as recent_games
    from sides
)

select
    counted.slot,
    counted.side,
    cast(counted.recent_games as integer) as recent_games,
    case
        when counted.recent_games >= rule_versions.heavy_games then rule_versions.heavy_k
        else rule_versions.k
    end as k
from counted
inner join rule_versions on counted.version_index = rule_versions.version_index
where counted.slot >= $first_slot

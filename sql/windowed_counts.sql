-- Purpose: how many rated games each side had in the window before each game.
-- Grain: one row an event (one side of a game), from $first_event on: what lies before is only counted.
-- Inputs: side_events (event: 2 * position of the game in the total order + side, 0 winner and 1 loser; player_index; reach: how many
--   events back the window begins), which starts at least a window before the first game that matters; $first_event.
-- Ties: of games at the same instant those earlier in the total order count; the frame therefore runs over the position, not over time
--   (a RANGE frame over time up to CURRENT ROW would count later games of the instant, EXCLUDE GROUP would drop earlier ones).
-- Edges: the game itself is in the frame and is taken off again. Where the frame begins is known beforehand (`prepare.reach_of`).
-- Both roles count: the window is by player, not by winner.
with counted as (
    select
        event,
        count(*) over (
            partition by player_index order by event range between reach preceding and current row
        ) - 1 as recent_games
    from side_events
)

select
    event,
    cast(recent_games as integer) as recent_games
from counted
where event >= $first_event

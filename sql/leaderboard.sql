-- Purpose: the leaderboard.
-- Grain: one row a player on the board.
-- Inputs: players (with band; pool NULL when there is one only); $top, $min_games, $active_days (NULL: no activity window).
-- Rank: 1, 1, 3; within a tie more games first, then id. Games that a start rating brought along count as games.
-- Activity counts back from the last rated game of the pool, to the microsecond, both edges included;
--   who has not played in this history is not active.
with eligible as (
    select *
    from players
    where
        games >= $min_games
    qualify
        $active_days is null
        or last_played_at >= max(last_played_at) over (partition by pool) - to_days(cast($active_days as integer))
),

ranked as (
    select
        *,
        rank() over (partition by pool order by rating desc) as player_rank,
        row_number() over (partition by pool order by rating desc, games desc, player_id asc) as place
    from eligible
)

select
    ranked.pool,
    cast(ranked.player_rank as bigint) as rank,
    ranked.player_id,
    ranked.rating,
    ranked.games,
    ranked.wins,
    ranked.losses,
    ranked.last_played_at,
    ranked.band
from ranked
where ranked.place <= $top
order by ranked.pool, ranked.place

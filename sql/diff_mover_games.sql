-- Purpose: the games that moved some players most differently in two runs.
-- Grain: one row a player and game, at most $games a player.
-- Inputs: diff_sides; movers (pool, player_id); $games.
-- Ties: of equal differences the earlier game, then the smaller id. A game that one run has not moved nobody there.
select
    diff_sides.pool,
    diff_sides.player_id,
    make_timestamptz(diff_sides.played_us) as played_at,
    diff_sides.game_id,
    diff_sides.before_a,
    diff_sides.before_b,
    diff_sides.change_a,
    diff_sides.change_b
from diff_sides
inner join movers
    on diff_sides.pool is not distinct from movers.pool and diff_sides.player_id = movers.player_id
where
    diff_sides.game_id is not null
    and coalesce(diff_sides.change_a, 0) <> coalesce(diff_sides.change_b, 0)
qualify
    row_number() over (
        partition by diff_sides.pool, diff_sides.player_id
        order by
            abs(coalesce(diff_sides.change_b, 0) - coalesce(diff_sides.change_a, 0)) desc,
            diff_sides.played_us asc,
            diff_sides.game_id asc
    ) <= $games
order by
    diff_sides.pool,
    diff_sides.player_id,
    abs(coalesce(diff_sides.change_b, 0) - coalesce(diff_sides.change_a, 0)) desc,
    diff_sides.played_us,
    diff_sides.game_id

-- Purpose: every step of every player's rating in PostgreSQL; says the same as player_timeline.sql.
-- Grain: one row a player and game, one row an award or dated adjustment (seq, game_id NULL; award_id NULL for an adjustment).
-- Inputs: timeline, awards (where there is no pool, the lines that name it are left out).
-- Order to read it in: player_id, played_at, (seq is not null), award_id nulls first, seq.
-- The awards stand first, so that the NULLs of the games take their types; PostgreSQL settles types by the first two branches.
select
    pool,
    player_id,
    cast(null as bigint) as seq,
    awarded_at as played_at,
    null as game_id,
    null as opponent_id,
    cast(null as double precision) as score,
    rating_before,
    change,
    rating_before + change as rating_after,
    cast(null as double precision) as expected,
    cast(null as double precision) as k,
    cast(null as double precision) as stake,
    cast(null as integer) as games,
    cast(null as integer) as recent_games,
    cast(null as double precision) as experience,
    null as rule_version,
    award_id,
    points
from awards
union all
select
    pool,
    winner_id,
    seq,
    played_at,
    game_id,
    loser_id,
    cast(case when is_draw then 0.5 else 1.0 end as double precision),
    winner_rating_before,
    winner_change,
    winner_rating_before + winner_change,
    winner_expected,
    winner_k,
    stake,
    winner_games,
    winner_recent_games,
    winner_experience,
    rule_version,
    null,
    null
from timeline
union all
select
    pool,
    loser_id,
    seq,
    played_at,
    game_id,
    winner_id,
    cast(case when is_draw then 0.5 else 0.0 end as double precision),
    loser_rating_before,
    loser_change,
    loser_rating_before + loser_change,
    1.0 - winner_expected,
    loser_k,
    stake,
    loser_games,
    loser_recent_games,
    loser_experience,
    rule_version,
    null,
    null
from timeline

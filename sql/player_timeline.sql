-- Purpose: every step of every player's rating: his games from his own side, and his awards.
-- Grain: one row a player and game, one row an award or dated adjustment (seq, game_id NULL; award_id NULL for an adjustment).
-- Inputs: timeline, awards (each with a pool).
-- Order to read it in: player_id, played_at, (seq is not null), award_id nulls first, seq: the adjustment of an instant comes before its
--   awards, and those before its games. A row's rating_before is the row before's rating_after.
select
    pool,
    winner_id as player_id,
    seq,
    played_at,
    game_id,
    loser_id as opponent_id,
    cast(case when is_draw then 0.5 else 1.0 end as double) as score,
    winner_rating_before as rating_before,
    winner_change as change,
    winner_rating_before + winner_change as rating_after,
    winner_expected as expected,
    winner_k as k,
    stake,
    winner_games as games,
    winner_recent_games as recent_games,
    winner_experience as experience,
    rule_version,
    null as award_id,
    null as points
from timeline
union all by name
select
    pool,
    loser_id as player_id,
    seq,
    played_at,
    game_id,
    winner_id as opponent_id,
    cast(case when is_draw then 0.5 else 0.0 end as double) as score,
    loser_rating_before as rating_before,
    loser_change as change,
    loser_rating_before + loser_change as rating_after,
    1.0 - winner_expected as expected,
    loser_k as k,
    stake,
    loser_games as games,
    loser_recent_games as recent_games,
    loser_experience as experience,
    rule_version
from timeline
union all by name
select
    pool,
    player_id,
    awarded_at as played_at,
    rating_before,
    change,
    rating_before + change as rating_after,
    award_id,
    points
from awards

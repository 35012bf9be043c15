-- Purpose: each rated game with its two players, for the intervals that respect that players repeat.
-- Grain: one row a rated game of the stretch.
-- Inputs: study_games (the view), study_months, study_stretch, study_versions, timeline; study_players (pool, player_id, player_index).
-- A pair of players is the same pair whoever won: first_player is the one with the smaller index.
-- Units and NULLs are those of sql/study_games.sql.
select
    study_months.pool,
    strftime(study_months.month_start, '%Y-%m') as month,
    study_versions.rule_version,
    study_versions.divisor,
    study_games.cube,
    study_games.match_length,
    study_games.decile,
    study_games.winner_heavy or study_games.loser_heavy as heavy,
    study_games.experience,
    study_games.gap_bin,
    study_games.probability_bin,
    study_games.half_points,
    study_games.logit_units,
    study_games.loss_units,
    study_games.squared_units,
    least(winners.player_index, losers.player_index) as first_player,
    greatest(winners.player_index, losers.player_index) as second_player
from study_games
inner join timeline on study_games.seq = timeline.seq
inner join study_months on study_games.month_index = study_months.month_index
inner join study_versions on study_games.version_index = study_versions.version_index
inner join study_players as winners
    on timeline.pool is not distinct from winners.pool and timeline.winner_id = winners.player_id
inner join study_players as losers
    on timeline.pool is not distinct from losers.pool and timeline.loser_id = losers.player_id

-- Purpose: one player's row of `players`, in every ladder that he stands on, with his rank.
-- Grain: one row a ladder.
-- Inputs: players (with band; pool NULL where there is one pool only), ranks (sql/leaderboard.sql without an end), $player.
-- rank is NULL for who may not stand on the board; of is how many may.
select
    players.pool,
    players.player_id,
    players.rating,
    players.games,
    players.wins,
    players.losses,
    players.draws,
    players.experience,
    players.peak_rating,
    epoch_us(players.peak_at) as peak_us,
    epoch_us(players.last_played_at) as last_us,
    players.band,
    ranks.rank,
    (select count(*) from ranks as others where others.pool is not distinct from players.pool) as of
from players
left join ranks on players.pool is not distinct from ranks.pool and players.player_id = ranks.player_id
where players.player_id = $player
order by players.pool

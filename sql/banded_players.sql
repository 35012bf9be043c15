-- Purpose: the players with the named band of their rating.
-- Grain: one row a player.
-- Inputs: plain_players (pool NULL when there is one only); bands (band, from_rating: empty when the rules name none).
-- Band: the last one that starts at or below the rating; NULL below the first and without bands.
select
    plain_players.*,
    bands.band
from plain_players
asof left join bands on plain_players.rating >= bands.from_rating
order by plain_players.pool, plain_players.player_id

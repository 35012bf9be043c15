-- Purpose: how many games share an instant, with any other game and with another one of the same player.
-- Grain: one row.
-- Inputs: tied_instants (played_us, games: of instants with more than one), tied_sides (sql/ties_sides.sql).
select
    cast((select count(*) from tied_instants) as bigint) as instants,
    cast((select coalesce(sum(games), 0) from tied_instants) as bigint) as games,
    cast(count(distinct seq) as bigint) as own_games,
    cast(count(distinct played_us) as bigint) as own_instants,
    cast((select count(*) from (select distinct pool, player_id from tied_sides)) as bigint) as players,
    min(played_us) as first_us
from tied_sides

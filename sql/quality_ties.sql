-- Purpose: how many games share an instant, and how exact the stamps are.
-- Grain: one row.
-- Inputs: quality_games, quality_sides.
-- Rules: tied_* counts what shares its instant with another game; a player-instant is a player (of a pool) at an instant.
-- Ties: of equally large instants the earliest is shown.
with instants as (
    select played_us, count(*) as games
    from quality_games
    group by played_us
),

player_instants as (
    select pool, player_id, played_us, count(*) as games
    from quality_sides
    group by pool, player_id, played_us
),

largest as (
    select played_us, games
    from instants
    order by games desc, played_us asc
    limit 1
),

by_instant as (
    select
        count(*) as instants,
        count(*) filter (where games > 1) as tied_instants,
        coalesce(sum(games) filter (where games > 1), 0) as tied_games,
        coalesce(sum(games), 0) as games,
        coalesce(sum(games) filter (where played_us % 1000000 = 0), 0) as whole_second_games,
        coalesce(sum(games) filter (where played_us % 86400000000 = 0), 0) as midnight_games
    from instants
),

by_player as (
    select
        count(*) as player_instants,
        count(*) filter (where games > 1) as tied_player_instants,
        coalesce(max(games), 0) as largest_player_instant
    from player_instants
)

select
    cast(by_instant.games as bigint) as games,
    cast(by_instant.instants as bigint) as instants,
    cast(by_instant.tied_instants as bigint) as tied_instants,
    cast(by_instant.tied_games as bigint) as tied_games,
    cast(coalesce((select games from largest), 0) as bigint) as largest_instant,
    (select played_us from largest) as largest_instant_us,
    cast(by_player.player_instants as bigint) as player_instants,
    cast(by_player.tied_player_instants as bigint) as tied_player_instants,
    cast(by_player.largest_player_instant as bigint) as largest_player_instant,
    cast(by_instant.whole_second_games as bigint) as whole_second_games,
    cast(by_instant.midnight_games as bigint) as midnight_games
from by_instant
cross join by_player

-- Purpose: each player's own rating and live's at the end, and the first game at which live is elsewhere.
-- Grain: one row a player of either.
-- Inputs: marked (of the players in suspects), sides, suspects.
with firsts as (
    select
        pool,
        player_id,
        cast(count(*) filter (where kind = 'both') as bigint) as games_both,
        cast(count(*) filter (where diverges) as bigint) as diverging_games,
        cast(count(*) filter (where diverges and cause is not null) as bigint) as caused_games,
        max_by(before_ours + change_ours, (played_us, game_id, copy)) filter (where before_ours is not null) as rating_ours,
        max_by(before_live + change_live, (played_us, game_id, copy)) filter (where change_live is not null) as rating_live,
        min_by(
            {
                'at': played_us, 'game_id': game_id, 'opponent_id': opponent_id, 'before_ours': before_ours,
                'change_ours': change_ours, 'before_live': before_live, 'change_live': change_live, 'cause': cause,
                'detail': detail, 'also': also
            },
            (played_us, game_id, copy)
        ) filter (where diverges) as first
    from marked
    group by pool, player_id
)

select
    pool,
    player_id,
    diverging_games = 0 as agrees,
    rating_ours,
    rating_live,
    games_both,
    diverging_games,
    caused_games,
    make_timestamptz(first.at) as first_at,
    first.game_id as first_game_id,
    first.opponent_id as first_opponent_id,
    first.before_ours as first_before_ours,
    first.before_live as first_before_live,
    first.change_ours as first_change_ours,
    first.change_live as first_change_live,
    first.cause as cause,
    first.detail as detail,
    first.also as also
from firsts
union all by name
select
    sides.pool,
    sides.player_id,
    true as agrees,
    max_by(before_ours + change_ours, (played_us, game_id)) as rating_ours,
    max_by(before_ours + change_ours, (played_us, game_id)) filter (
        where coalesce(live_before, live_change, live_after) is not null
    ) as rating_live,
    cast(count(*) as bigint) as games_both,
    cast(0 as bigint) as diverging_games,
    cast(0 as bigint) as caused_games
from sides
anti join suspects on sides.pool is not distinct from suspects.pool and sides.player_id = suspects.player_id
group by sides.pool, sides.player_id
order by pool, player_id

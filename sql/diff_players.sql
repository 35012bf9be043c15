-- Purpose: for each player whose past differs in two runs, how often it does and where for the first time.
-- Grain: one row a player.
-- Inputs: diff_sides.
-- Order: by instant, at one instant awards first, then by game id.
with firsts as (
    select
        pool,
        player_id,
        cast(count(game_id) as bigint) as differing_games,
        min({
            'at': played_us, 'is_game': game_id is not null, 'game_id': game_id, 'before_a': before_a, 'before_b': before_b,
            'change_a': change_a, 'change_b': change_b
        }) as first
    from diff_sides
    group by pool, player_id
)

select
    pool,
    player_id,
    differing_games,
    make_timestamptz(first.at) as first_at,
    first.game_id as first_game_id,
    first.before_a as first_before_a,
    first.before_b as first_before_b,
    first.change_a as first_change_a,
    first.change_b as first_change_b
from firsts
order by pool, player_id

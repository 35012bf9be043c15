-- Purpose: where two runs say something else of a player: his games and awards, each from his own side.
-- Grain: one row a player and game whose rating before, change or instant differs, or that only one run has; one row an award (game_id
--   NULL) that only one run has.
-- Inputs: diff_games; awards_a, awards_b (pool NULL when there is one only).
-- Edges: the same two players in both runs, which is nearly always, need no join; only of other games are the sides paired by player.
with same as (
    select *
    from diff_games
    where pool_a is not distinct from pool_b and winner_a = winner_b and loser_a = loser_b
),

other as (
    select *
    from diff_games
    where not coalesce(pool_a is not distinct from pool_b and winner_a = winner_b and loser_a = loser_b, false)
),

other_a as (
    select
        game_id,
        played_a,
        pool_a as pool,
        unnest([winner_a, loser_a]) as player_id,
        unnest([winner_before_a, loser_before_a]) as before_a,
        unnest([winner_change_a, loser_change_a]) as change_a
    from other
    where winner_a is not null
),

other_b as (
    select
        game_id,
        played_b,
        pool_b as pool,
        unnest([winner_b, loser_b]) as player_id,
        unnest([winner_before_b, loser_before_b]) as before_b,
        unnest([winner_change_b, loser_change_b]) as change_b
    from other
    where winner_b is not null
),

paired as (
    select
        coalesce(other_a.pool, other_b.pool) as pool,
        coalesce(other_a.player_id, other_b.player_id) as player_id,
        coalesce(other_a.game_id, other_b.game_id) as game_id,
        played_a,
        played_b,
        before_a,
        before_b,
        change_a,
        change_b
    from other_a
    full join other_b
        on
            other_a.game_id = other_b.game_id
            and other_a.player_id = other_b.player_id
            and other_a.pool is not distinct from other_b.pool
),

sides as (
    select
        pool_a as pool,
        winner_a as player_id,
        game_id,
        played_a,
        played_b,
        winner_before_a as before_a,
        winner_before_b as before_b,
        winner_change_a as change_a,
        winner_change_b as change_b
    from same
    union all
    select
        pool_a,
        loser_a,
        game_id,
        played_a,
        played_b,
        loser_before_a,
        loser_before_b,
        loser_change_a,
        loser_change_b
    from same
    union all by name
    select *
    from paired
),

only_a as (
    select pool, player_id, award_id, epoch_us(awarded_at) as awarded_us, cast(change as double) as change
    from awards_a
    except all
    select pool, player_id, award_id, epoch_us(awarded_at), cast(change as double)
    from awards_b
),

only_b as (
    select pool, player_id, award_id, epoch_us(awarded_at) as awarded_us, cast(change as double) as change
    from awards_b
    except all
    select pool, player_id, award_id, epoch_us(awarded_at), cast(change as double)
    from awards_a
)

select
    pool,
    player_id,
    least(coalesce(played_a, played_b), coalesce(played_b, played_a)) as played_us,
    game_id,
    before_a,
    before_b,
    change_a,
    change_b
from sides
where
    before_a is distinct from before_b or change_a is distinct from change_b or played_a is distinct from played_b
union all by name
select pool, player_id, awarded_us as played_us, change as change_a
from only_a
union all by name
select pool, player_id, awarded_us as played_us, change as change_b
from only_b

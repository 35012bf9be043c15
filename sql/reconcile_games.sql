-- Purpose: the games whose change has to be looked at: live's ratings before and changes of both sides, and our terms.
-- Grain: one row a game that both have and in which live's before or change is another than ours.
-- Inputs: chain, sides, suspects, timeline; $tolerance.
-- Edges: of an opponent who agrees in every game, what live says is what we say. Where live does not say a rating before, ours stands
--   in for it; a change that it does not say is NULL.
with both_sides as (
    select pool, game_id, side, before_live, change_live, before_1, is_swapped, before_ours, change_ours
    from chain
    where kind = 'both'
    union all by name
    select
        pool,
        game_id,
        side,
        before_ours as before_live,
        case when coalesce(live_before, live_change, live_after) is not null then change_ours end as change_live,
        is_swapped,
        before_ours,
        change_ours
    from sides
    anti join suspects on sides.pool is not distinct from suspects.pool and sides.player_id = suspects.player_id
    where kind = 'both'
),

paired as (
    select
        pool,
        game_id,
        max(before_live) filter (where side = 0) as winner_before,
        max(before_live) filter (where side = 1) as loser_before,
        max(change_live) filter (where side = 0) as winner_change,
        max(change_live) filter (where side = 1) as loser_change,
        max(before_1) filter (where side = 0) as winner_before_1,
        max(before_1) filter (where side = 1) as loser_before_1,
        bool_or(is_swapped) as is_swapped
    from both_sides
    group by pool, game_id
    having
        bool_or(abs(before_live - before_ours) > $tolerance or abs(change_live - change_ours) > $tolerance or is_swapped)
)

select
    timeline.pool,
    timeline.game_id,
    epoch_us(timeline.played_at) as played_us,
    timeline.is_draw,
    timeline.cube,
    timeline.match_length,
    timeline.result,
    timeline.weight,
    timeline.advantage,
    timeline.winner_k,
    timeline.loser_k,
    timeline.winner_games,
    timeline.loser_games,
    timeline.winner_recent_games,
    timeline.loser_recent_games,
    cast(timeline.winner_rating_before as double) as winner_before_ours,
    cast(timeline.loser_rating_before as double) as loser_before_ours,
    cast(timeline.winner_change as double) as winner_change_ours,
    cast(timeline.loser_change as double) as loser_change_ours,
    coalesce(paired.winner_before, timeline.winner_rating_before) as winner_before,
    coalesce(paired.loser_before, timeline.loser_rating_before) as loser_before,
    coalesce(paired.winner_before_1, paired.winner_before, timeline.winner_rating_before) as winner_before_1,
    coalesce(paired.loser_before_1, paired.loser_before, timeline.loser_rating_before) as loser_before_1,
    paired.winner_change,
    paired.loser_change,
    paired.is_swapped
from paired
inner join timeline
    on paired.game_id = timeline.game_id and paired.pool is not distinct from timeline.pool

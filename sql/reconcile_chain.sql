-- Purpose: the live ratings of each player game by game: does each rating before follow from the game before?
-- Grain: one row a row of sides, of the players in suspects.
-- Inputs: sides; suspects (pool, player_id); awards (pool NULL when there is one only); $tolerance (points).
-- What live does not say is put together: before from after and change, change from after and before or from the next before, and
--   before from the last after, or from all changes so far.
-- broken: how a rating before does not follow. 'order': this game and the next one in the other order; 'again': so, and both are the
--   same game. 'stale': it is the rating before an earlier game. 'twice': the last change once more. 'award': as if an award had not
--   been. 'row': live has no row of games in between, whose changes it has. 'start': it is the first. 'jump': any other.
-- After a stale game two things are right: going on from it, or its change added to what was there.
with looked_at as materialized (
    select sides.*
    from sides
    semi join suspects on sides.pool is not distinct from suspects.pool and sides.player_id = suspects.player_id
),

events as (
    select *, cast(0 as double) as award
    from looked_at
    union all by name
    select
        awards.pool,
        awards.player_id,
        'award' as kind,
        epoch_us(awards.awarded_at) as played_us,
        cast(awards.change as double) as award
    from awards
    semi join suspects on awards.pool is not distinct from suspects.pool and awards.player_id = suspects.player_id
),

summed as (
    select
        *,
        sum(award) over so_far as awarded,
        sum(case when kind = 'only_ours' then change_ours else 0 end) over so_far as missed,
        first_value(before_ours ignore nulls) over whole as start_ours
    from events
    window
        so_far as (
            partition by pool, player_id order by played_us, kind <> 'award', game_id, copy rows unbounded preceding
        ),
        whole as (
            partition by pool, player_id order by played_us, kind <> 'award', game_id, copy
            rows between unbounded preceding and unbounded following
        )
),

games as (
    select
        * exclude (awarded, missed, award),
        awarded - coalesce(lag(awarded) over walk, first_value(awarded) over walk) as awarded,
        missed - coalesce(lag(missed) over walk, 0) as missed,
        coalesce(live_after, live_before + live_change) as after_said,
        coalesce(live_before, live_after - live_change) as before_said,
        sum(live_change) over (walk rows between unbounded preceding and 1 preceding) as changes_before
    from summed
    where kind not in ('award', 'only_ours')
    window walk as (partition by pool, player_id order by played_us, game_id, copy)
),

filled as (
    select
        *,
        coalesce(before_said, lag(after_said) over walk + awarded, start_ours + coalesce(changes_before, 0)) as before_live,
        coalesce(
            live_change, live_after - before_said, lead(before_said) over walk - before_said - lead(awarded) over walk
        ) as change_known,
        live_after as after_known
    from games
    window walk as (partition by pool, player_id order by played_us, game_id, copy)
),

walked as (
    select
        *,
        coalesce(change_known, after_known - before_live) as change_live
    from filled
),

seen as (
    select
        *,
        lag(before_live) over walk as before_1,
        lag(before_live, 2) over walk as before_2,
        lag(before_live, 3) over walk as before_3,
        lag(change_live) over walk as change_1,
        lag(change_live, 2) over walk as change_2,
        lag(before_live + change_live) over walk as after_1,
        lag(before_live + change_live, 2) over walk as after_2,
        lead(before_live) over walk as next_before,
        lead(change_live) over walk as next_change,
        lead(game_id) over walk as next_game
    from walked
    window walk as (partition by pool, player_id order by played_us, game_id, copy)
),

ordered as (
    select
        *,
        coalesce(
            abs(before_live - next_before - next_change) <= $tolerance
            and abs(next_before - coalesce(after_1, start_ours) - awarded) <= $tolerance
            and abs(before_live - next_before) > $tolerance,
            false
        ) as is_swap,
        coalesce(
            abs(before_live - coalesce(after_1, start_ours) - awarded) > $tolerance
            and (
                (abs(before_live - before_1) <= $tolerance and abs(change_1) > $tolerance)
                or (abs(before_live - before_2) <= $tolerance and abs(change_2 + change_1) > $tolerance)
                or abs(before_live - before_3) <= $tolerance
            ),
            false
        ) as is_stale
    from seen
),

followed as (
    select
        *,
        coalesce(lag(is_swap) over walk, false) as after_swap,
        coalesce(lag(is_swap, 2) over walk, false) as after_swapped,
        coalesce(lag(is_stale) over walk, false) as after_stale
    from ordered
    window walk as (partition by pool, player_id order by played_us, game_id, copy)
)

select
    pool,
    kind,
    game_id,
    copy,
    played_us,
    side,
    player_id,
    opponent_id,
    is_swapped,
    is_strange,
    before_ours,
    change_ours,
    before_live,
    change_live,
    before_1,
    awarded,
    case
        when after_swapped then after_2
        else coalesce(after_1, start_ours, before_live)
    end + awarded as before_wanted,
    case
        when before_live is null or after_swap then null
        when is_swap and next_game = game_id then 'again'
        when is_swap then 'order'
        when
            abs(
                before_live - awarded
                - case when after_swapped then after_2 else coalesce(after_1, start_ours, before_live) end
            ) <= $tolerance
            then null
        when after_stale and abs(before_live - awarded - after_2 - change_1) <= $tolerance then null
        when
            missed <> 0 and abs(before_live - coalesce(after_1, start_ours) - awarded - missed) <= $tolerance
            then 'row'
        when
            abs(change_1) > $tolerance and abs(before_live - after_1 - awarded - change_1) <= $tolerance
            then 'twice'
        when is_stale then 'stale'
        when awarded <> 0 and abs(before_live - coalesce(after_1, start_ours)) <= $tolerance then 'award'
        when after_1 is null then 'start'
        else 'jump'
    end as broken
from followed
union all by name
select
    pool,
    kind,
    game_id,
    copy,
    played_us,
    side,
    player_id,
    opponent_id,
    is_swapped,
    is_strange,
    before_ours,
    change_ours
from looked_at
where kind = 'only_ours'

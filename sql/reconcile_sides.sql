-- Purpose: every game from each player's side, as we rate it and as the live ratings have it.
-- Grain: one row a player and game of either; a further row a player for each further row that live has of the game.
-- Inputs: timeline (pool NULL when there is one only), live_rows, extras; $from_us, $to_us (what the live ratings span, both included).
-- Kinds: 'both', 'only_ours', 'only_live', 'again' (live has the game once more). Live's columns are taken from the player's own side, also
--   where live calls the winner loser (is_swapped); is_strange: live has other players.
with games as (
    select
        timeline.pool,
        timeline.game_id,
        epoch_us(timeline.played_at) as played_us,
        timeline.winner_id,
        timeline.loser_id,
        timeline.winner_rating_before,
        timeline.loser_rating_before,
        timeline.winner_change as winner_change_ours,
        timeline.loser_change as loser_change_ours,
        live.game_id is not null as is_live,
        coalesce(live.winner_id = timeline.loser_id and live.loser_id = timeline.winner_id, false) as is_swapped,
        coalesce(
            live.winner_id not in (timeline.winner_id, timeline.loser_id)
            or live.loser_id not in (timeline.winner_id, timeline.loser_id),
            false
        ) as is_strange,
        live.* exclude (pool, game_id, played_us, winner_id, loser_id, copy, file_no, row_no)
    from timeline
    left join (select * from live_rows where copy = 1) as live
        on timeline.game_id = live.game_id and timeline.pool is not distinct from live.pool
    where epoch_us(timeline.played_at) between $from_us and $to_us
),

ours as (
    select
        pool,
        case when is_live then 'both' else 'only_ours' end as kind,
        game_id,
        cast(1 as bigint) as copy,
        played_us,
        is_swapped,
        is_strange,
        unnest([0, 1]) as side,
        unnest([winner_id, loser_id]) as player_id,
        unnest([loser_id, winner_id]) as opponent_id,
        unnest([cast(winner_rating_before as double), cast(loser_rating_before as double)]) as before_ours,
        unnest([cast(winner_change_ours as double), cast(loser_change_ours as double)]) as change_ours,
        unnest(if(is_swapped, [loser_before, winner_before], [winner_before, loser_before])) as live_before,
        unnest(if(is_swapped, [loser_change, winner_change], [winner_change, loser_change])) as live_change,
        unnest(if(is_swapped, [loser_after, winner_after], [winner_after, loser_after])) as live_after
    from games
),

further as (
    select
        live_rows.pool,
        live_rows.game_id,
        live_rows.copy,
        timeline.game_id is not null as is_rated,
        coalesce(epoch_us(timeline.played_at), extras.played_us) as played_us,
        coalesce(live_rows.winner_id, timeline.winner_id, extras.winner_id) as winner_id,
        coalesce(live_rows.loser_id, timeline.loser_id, extras.loser_id) as loser_id,
        live_rows.winner_before,
        live_rows.loser_before,
        live_rows.winner_change,
        live_rows.loser_change,
        live_rows.winner_after,
        live_rows.loser_after
    from live_rows
    left join timeline
        on live_rows.game_id = timeline.game_id and live_rows.pool is not distinct from timeline.pool
    left join extras on live_rows.game_id = extras.game_id
    where live_rows.copy > 1 or timeline.game_id is null
),

theirs as (
    select
        pool,
        case when copy > 1 then 'again' else 'only_live' end as kind,
        game_id,
        copy,
        played_us,
        false as is_swapped,
        false as is_strange,
        unnest([0, 1]) as side,
        unnest([winner_id, loser_id]) as player_id,
        unnest([loser_id, winner_id]) as opponent_id,
        cast(null as double) as before_ours,
        cast(null as double) as change_ours,
        unnest([winner_before, loser_before]) as live_before,
        unnest([winner_change, loser_change]) as live_change,
        unnest([winner_after, loser_after]) as live_after
    from further
)

select *
from ours
union all
select *
from theirs
where player_id is not null

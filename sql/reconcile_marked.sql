-- Purpose: each side of each game with whether live is elsewhere than we are, and with a cause where it is not only a consequence.
-- Grain: one row a row of chain.
-- Inputs: chain; extras (game_id, reason); change_causes (game_id, cause, detail, also: games whose change is wrong given live's own
--   ratings before); $tolerance.
-- A game whose before follows from the one before it, and whose change is right given live's befores, has no cause of its own: it follows
--   from an earlier one, of this player or of his opponent.
with next as (
    select
        *,
        lead(case when kind <> 'only_ours' then coalesce(broken, '') end ignore nulls) over (
            partition by pool, player_id order by played_us, game_id, copy
        ) as next_broken
    from chain
)

select
    next.pool,
    next.game_id,
    next.copy,
    next.kind,
    next.played_us,
    next.player_id,
    next.opponent_id,
    next.before_ours,
    next.change_ours,
    next.before_live,
    next.change_live,
    next.before_wanted,
    next.kind <> 'both'
    or next.is_swapped
    or next.is_strange
    or coalesce(abs(next.before_live - next.before_ours) > $tolerance, false)
    or coalesce(abs(next.change_live - next.change_ours) > $tolerance, false) as diverges,
    case
        when next.kind = 'only_ours' and next.next_broken = 'row' then 'missing row'
        when next.kind = 'only_ours' then 'missing game'
        when next.kind = 'only_live' then 'extra game'
        when next.kind = 'again' or next.broken = 'again' then 'counted twice'
        when next.is_strange then 'other players'
        when next.broken = 'order' then 'other order'
        when next.broken = 'stale' then 'stale rating'
        when next.broken = 'twice' then 'counted twice'
        when next.broken = 'award' then 'award'
        when next.broken = 'start' then 'start rating'
        when next.broken = 'jump' then 'manual edit'
        else change_causes.cause
    end as cause,
    case
        when next.kind = 'only_ours' and next.next_broken = 'row'
            then 'live has no row of the game, but its change is in the rating'
        when next.kind = 'only_ours' then 'live has no such game'
        when next.kind = 'only_live' then extras.reason
        when next.kind = 'again' or next.broken = 'again' then 'live has the game more than once'
        when next.is_strange then 'live has other players'
        when next.broken = 'order' then 'live counted the next game of the player first'
        when next.broken = 'stale' then 'the rating before is the one before an earlier game: an update was lost'
        when next.broken = 'twice' then 'the change of the game before was added once more'
        when next.broken = 'award' then 'an award before it is not in the rating'
        when next.broken = 'start' then 'another rating before the first game that live has'
        when next.broken = 'jump'
            then printf('%+.15g', next.before_live - next.before_wanted) || ' points without a game'
        else change_causes.detail
    end as detail,
    change_causes.also
from next
left join change_causes
    on next.kind = 'both' and next.game_id = change_causes.game_id and next.pool is not distinct from change_causes.pool
left join extras on next.kind = 'only_live' and next.game_id = extras.game_id

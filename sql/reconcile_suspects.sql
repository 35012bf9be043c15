-- Purpose: the players in whose games live says anything else than we do: all others agree, and nothing of them is looked at further.
-- Grain: one row a player.
-- Inputs: sides; $tolerance.
select pool, player_id
from sides
group by pool, player_id
having
    bool_or(
        kind <> 'both'
        or is_swapped
        or is_strange
        or coalesce(abs(live_before - before_ours) > $tolerance, false)
        or coalesce(abs(live_change - change_ours) > $tolerance, false)
        or coalesce(abs(live_after - before_ours - change_ours) > $tolerance, false)
    )

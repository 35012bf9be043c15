-- Purpose: whose week is heavy at an instant: who would play a game then with a reduced k.
-- Grain: one row a pool and player.
-- Inputs: player_timeline (pool NULL where there is one pool only); $from_us, $to_us (microseconds, both included: a game exactly as old as
--   the window counts); $heavy_games.
-- least_us: the instant of the game that makes the week heavy, counted from the last one back: once it has left the window, and if he
--   plays no more, the week is heavy no longer.
with recent as (
    select
        pool,
        player_id,
        epoch_us(played_at) as played_us,
        row_number() over (partition by pool, player_id order by played_at desc, seq desc) as place
    from player_timeline
    where seq is not null and epoch_us(played_at) >= $from_us and epoch_us(played_at) <= $to_us
)

select
    pool,
    player_id,
    cast(count(*) as integer) as recent_games,
    max(played_us) filter (where place = $heavy_games) as least_us
from recent
group by pool, player_id
having count(*) >= $heavy_games
order by pool, recent_games desc, player_id

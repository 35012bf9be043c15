-- Purpose: of both players of a game, the game before it, and where their weeks turned heavy or light around it.
-- Grain: one row a player.
-- Inputs: player_timeline, rule_versions; $pool (NULL where there is one pool only), $winner, $loser, $seq (of the game).
-- heavy: whether his week is heavy at the game itself. previous_seq: his game before. since_seq: the first game of the run of equal weeks
--   that the game lies in. until_seq: the first game after that run. is_first: nothing in the timeline shown lies before since_seq.
with games as (
    select
        player_timeline.player_id,
        player_timeline.seq,
        coalesce(player_timeline.recent_games >= rule_versions.heavy_games, false) as heavy
    from player_timeline
    left join rule_versions on player_timeline.rule_version = rule_versions.rule_version
    where
        player_timeline.player_id in ($winner, $loser)
        and player_timeline.pool is not distinct from $pool
        and player_timeline.seq is not null
),

here as (
    select player_id, heavy
    from games
    where seq = $seq
),

around as (
    select
        games.player_id,
        here.heavy,
        max(games.seq) filter (where games.seq < $seq) as previous_seq,
        max(games.seq) filter (where games.seq < $seq and games.heavy <> here.heavy) as other_seq,
        min(games.seq) filter (where games.seq > $seq and games.heavy <> here.heavy) as until_seq
    from games
    inner join here on games.player_id = here.player_id
    group by games.player_id, here.heavy
)

select
    around.player_id,
    around.heavy,
    around.previous_seq,
    min(games.seq) as since_seq,
    around.until_seq,
    around.other_seq is null as is_first
from around
inner join games on around.player_id = games.player_id and games.seq > coalesce(around.other_seq, 0)
group by all

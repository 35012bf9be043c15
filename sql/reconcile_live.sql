-- Purpose: the site's own rows by game, under our ids: which row of a game it is, and whom the site calls winner and loser.
-- Grain: one row a row of the live ratings that has a game id.
-- Inputs: live_staged; aliases (alias_id, player_id).
-- Order of a game's rows: as they stand in the files.
select
    live_staged.file_no,
    live_staged.row_no,
    live_staged.pool,
    live_staged.game_id,
    live_staged.played_us,
    coalesce(winner_alias.player_id, live_staged.winner_id) as winner_id,
    coalesce(loser_alias.player_id, live_staged.loser_id) as loser_id,
    live_staged.winner_before,
    live_staged.loser_before,
    live_staged.winner_change,
    live_staged.loser_change,
    live_staged.winner_after,
    live_staged.loser_after,
    row_number() over (
        partition by live_staged.game_id order by live_staged.file_no asc, live_staged.row_no asc
    ) as copy
from live_staged
left join aliases as winner_alias on live_staged.winner_id = winner_alias.alias_id
left join aliases as loser_alias on live_staged.loser_id = loser_alias.alias_id
where live_staged.game_id is not null

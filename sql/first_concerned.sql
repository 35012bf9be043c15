-- Purpose: the first game of the players whose aliases or whose exclusion changed.
-- Grain: one row; NULL when they have none.
-- Inputs: stored_rows; aliases, excluded (as they are now); concerned_ids (player_id: raw ids whose alias changed), concerned_players
--   (player_id: resolved ids whose exclusion changed).
select min(stored_rows.played_us) as first_us
from stored_rows
left join aliases as winner_alias on stored_rows.winner_id = winner_alias.alias_id
left join aliases as loser_alias on stored_rows.loser_id = loser_alias.alias_id
where
    stored_rows.is_dated
    and stored_rows.standing = 'stays'
    and (
        stored_rows.winner_id in (select player_id from concerned_ids)
        or stored_rows.loser_id in (select player_id from concerned_ids)
        or coalesce(winner_alias.player_id, stored_rows.winner_id) in (select player_id from concerned_players)
        or coalesce(loser_alias.player_id, stored_rows.loser_id) in (select player_id from concerned_players)
    )

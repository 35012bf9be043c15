-- Purpose: the games that only the live ratings have, with what our run knows of them: when, who, and why they are not rated.
-- Grain: one row a game id that is in live_rows and not in the timeline.
-- Inputs: live_rows, timeline; stored_rows (what the run keeps of every row: game_id, played_us, winner_id, loser_id, mode, voided,
--   standing); rejected (game_id as text, reason); aliases; $as_of_us.
-- Edges: a game that no input file has is 'unknown'. Live's own instant and ids, where it gives them, come first.
with extra as (
    select
        game_id,
        min(pool) as pool,
        min(played_us) as played_us,
        min_by(winner_id, copy) as winner_id,
        min_by(loser_id, copy) as loser_id
    from live_rows
    anti join timeline on live_rows.game_id = timeline.game_id
    group by game_id
),

known as (
    select
        stored_rows.game_id,
        max_by(stored_rows.played_us, stored_rows.standing = 'stays') as played_us,
        max_by(stored_rows.winner_id, stored_rows.standing = 'stays') as winner_id,
        max_by(stored_rows.loser_id, stored_rows.standing = 'stays') as loser_id,
        max_by(stored_rows.mode, stored_rows.standing = 'stays') as mode,
        bool_or(coalesce(stored_rows.voided, false) and stored_rows.standing = 'stays') as voided
    from stored_rows
    semi join extra on stored_rows.game_id = extra.game_id
    group by stored_rows.game_id
),

refused as (
    select game_id, min(reason) as reason
    from rejected
    group by game_id
)

select
    extra.pool,
    extra.game_id,
    coalesce(extra.played_us, known.played_us) as played_us,
    coalesce(extra.winner_id, winner_alias.player_id, known.winner_id) as winner_id,
    coalesce(extra.loser_id, loser_alias.player_id, known.loser_id) as loser_id,
    case
        when refused.reason is not null then 'refused: ' || refused.reason
        when known.game_id is null then 'unknown: no input file has it'
        when known.voided then 'voided'
        when known.played_us > $as_of_us then 'held: after the as-of'
        else 'not rated: mode ' || coalesce(known.mode, 'ranked') || ', or a player excluded'
    end as reason
from extra
left join known on extra.game_id = known.game_id
left join refused on cast(extra.game_id as varchar) = refused.game_id
left join aliases as winner_alias on known.winner_id = winner_alias.alias_id
left join aliases as loser_alias on known.loser_id = loser_alias.alias_id

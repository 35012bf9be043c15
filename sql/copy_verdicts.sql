-- Purpose: which copies of a repeated game stay out, and why.
-- Grain: one row a staged row to be taken out of `staged`.
-- Inputs: staged; repeated (game_id of every id that stands more than once among rows with ids and time).
-- Rules: the top revision stays (NULL is the lowest); older revisions and identical copies are 'duplicate'; if copies of the top
--   revision differ in any canonical column (after mapping, defaults and flooring, before aliases), all of them are
--   'conflicting_copies'. Content is compared column by column, exactly.
-- Ties: of identical copies the one that says most by itself stays (a NULL and the default it stands for are the same content, and
--   yet show in `rejected`), then the one that stands first (file, row): what stays does not depend on how files are named.
-- Way: the narrow part first (revision and place decide which copy leads), then each other top copy is held against its leader. An
--   aggregate over every column says the same and takes two and a half times as long where a whole history was delivered twice.
with keyed as (
    select
        staged.rowid as row_key,
        staged.game_id,
        staged.revision,
        case when staged.mode is null then 32 else 0 end
        + case when staged.cube is null then 16 else 0 end
        + case when staged.is_draw is null then 8 else 0 end
        + case when staged.voided is null then 4 else 0 end
        + case when staged.advantage is null then 2 else 0 end
        + case when staged.weight is null then 1 else 0 end as silent,
        staged.file_no,
        staged.row_no
    from staged
    semi join repeated on staged.game_id = repeated.game_id
    where is_dated(staged.pool, staged.game_id, staged.winner_id, staged.loser_id, staged.played_us)
),

top_revisions as (
    select game_id, max(revision) as top_revision
    from keyed
    group by game_id
),

placed as (
    select
        keyed.row_key,
        keyed.game_id,
        cast(keyed.silent as hugeint) * 9223372036854775808 + keyed.file_no * 1099511627776 + keyed.row_no as place,
        keyed.revision is not distinct from top_revisions.top_revision as is_top
    from keyed
    inner join top_revisions on keyed.game_id = top_revisions.game_id
),

leaders as (
    select game_id, arg_min(row_key, place) as leader_key
    from placed
    where is_top
    group by game_id
),

followers as (
    select placed.row_key, placed.game_id, leaders.leader_key
    from placed
    inner join leaders on placed.game_id = leaders.game_id
    where placed.is_top and placed.row_key <> leaders.leader_key
),

quarrels as (
    select distinct followers.game_id
    from followers
    inner join staged as own on followers.row_key = own.rowid
    inner join staged as leader on followers.leader_key = leader.rowid
    where
        own.pool <> leader.pool
        or own.played_us <> leader.played_us
        or own.winner_id <> leader.winner_id
        or own.loser_id <> leader.loser_id
        or coalesce(own.mode, 'ranked') <> coalesce(leader.mode, 'ranked')
        or coalesce(own.cube, 1) <> coalesce(leader.cube, 1)
        or own.match_length is distinct from leader.match_length
        or own.result is distinct from leader.result
        or own.ended_by is distinct from leader.ended_by
        or coalesce(own.is_draw, false) <> coalesce(leader.is_draw, false)
        or coalesce(own.voided, false) <> coalesce(leader.voided, false)
        or coalesce(own.advantage, 0.0) <> coalesce(leader.advantage, 0.0)
        or coalesce(own.weight, 1.0) <> coalesce(leader.weight, 1.0)
),

final as (
    select
        placed.row_key,
        case when placed.is_top and quarrels.game_id is not null then 'conflicting_copies' else 'duplicate' end as verdict
    from placed
    inner join leaders on placed.game_id = leaders.game_id
    left join quarrels on placed.game_id = quarrels.game_id
    where not placed.is_top or quarrels.game_id is not null or placed.row_key <> leaders.leader_key
)

select row_key, verdict
from final

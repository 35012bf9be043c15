-- Purpose: which copies of a repeated game stay out, and why.
-- Grain: one row a staged row to be taken out of `staged`.
-- Inputs: staged; repeated (game_id of every id that stands more than once among rows with ids and time).
-- Rules: the top revision stays (NULL is the lowest); older revisions and identical copies are 'duplicate'; if copies of the top
--   revision differ in any canonical column (after mapping, defaults and flooring, before aliases), all of them are
--   'conflicting_copies'. Content is compared column by column, exactly.
-- Ties: of identical copies the one that says most by itself stays (a NULL and the default it stands for are the same content, and
--   yet show in `rejected`), then the one that stands first (file, row): what stays does not depend on how files are named.
with copies as (
    select
        staged.rowid as row_key,
        staged.file_no,
        staged.row_no,
        staged.pool,
        case when staged.mode is null then 32 else 0 end
        + case when staged.cube is null then 16 else 0 end
        + case when staged.is_draw is null then 8 else 0 end
        + case when staged.voided is null then 4 else 0 end
        + case when staged.advantage is null then 2 else 0 end
        + case when staged.weight is null then 1 else 0 end as silent,
        staged.game_id,
        staged.played_us,
        staged.winner_id,
        staged.loser_id,
        coalesce(staged.mode, 'ranked') as mode,
        coalesce(staged.cube, 1) as cube,
        staged.match_length,
        staged.result,
        staged.ended_by,
        coalesce(staged.is_draw, false) as is_draw,
        coalesce(staged.voided, false) as voided,
        staged.revision,
        coalesce(staged.advantage, 0.0) as advantage,
        coalesce(staged.weight, 1.0) as weight
    from staged
    semi join repeated on staged.game_id = repeated.game_id
    where
        staged.winner_id is not null
        and staged.loser_id is not null
        and staged.pool is not null
        and staged.played_us is not null
),

top_revisions as (
    select game_id, max(revision) as top_revision
    from copies
    group by game_id
),

ranked as (
    select
        copies.*,
        cast(copies.silent as hugeint) * 9223372036854775808 + copies.file_no * 1099511627776 + copies.row_no as place,
        copies.revision is not distinct from top_revisions.top_revision as is_top
    from copies
    inner join top_revisions on copies.game_id = top_revisions.game_id
),

agreements as (
    select
        game_id,
        min(place) as first_place,
        min(pool) = max(pool)
        and min(played_us) = max(played_us)
        and min(winner_id) = max(winner_id)
        and min(loser_id) = max(loser_id)
        and min(mode) = max(mode)
        and min(cube) = max(cube)
        and min(is_draw) = max(is_draw)
        and min(voided) = max(voided)
        and min(advantage) = max(advantage)
        and min(weight) = max(weight)
        and min(match_length) is not distinct from max(match_length)
        and count(match_length) in (0, count(*))
        and min(result) is not distinct from max(result)
        and count(result) in (0, count(*))
        and min(ended_by) is not distinct from max(ended_by)
        and count(ended_by) in (0, count(*)) as all_agree
    from ranked
    where is_top
    group by game_id
),

final as (
    select
        ranked.row_key,
        case
            when ranked.is_top and not agreements.all_agree then 'conflicting_copies'
            else 'duplicate'
        end as verdict
    from ranked
    inner join agreements on ranked.game_id = agreements.game_id
    where
        not ranked.is_top
        or not agreements.all_agree
        or ranked.place <> agreements.first_place
)

select row_key, verdict
from final

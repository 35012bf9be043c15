-- Purpose: every award with its verdict.
-- Grain: one row a row of the awards table.
-- Inputs: awards_staged (file_no, row_no, pool, award_id, awarded_us, player_id, points, reason); aliases; excluded; settings
--   (as_of_us, whole_points).
-- Rules: as for games: missing first, then copies of one award_id (content before aliases), then held, excluded, bad points.
-- Ties: of identical copies the first (file, row) stays.
with numbered as (
    select
        *,
        award_id is null or player_id is null or pool is null as lacks_id,
        row_number() over (partition by award_id order by file_no, row_no) as copy_no,
        min(awarded_us) over copies is distinct from max(awarded_us) over copies
        or min(player_id) over copies is distinct from max(player_id) over copies
        or min(pool) over copies is distinct from max(pool) over copies
        or min(points) over copies is distinct from max(points) over copies
        or min(reason) over copies is distinct from max(reason) over copies
        or count(points) over copies not in (0, count(*) over copies)
        or count(reason) over copies not in (0, count(*) over copies) as copies_differ
    from awards_staged
    where award_id is not null and player_id is not null and pool is not null and awarded_us is not null
    window copies as (partition by award_id)
    union all by name
    select
        *,
        award_id is null or player_id is null or pool is null as lacks_id
    from awards_staged
    where award_id is null or player_id is null or pool is null or awarded_us is null
)

select
    numbered.file_no,
    numbered.row_no,
    numbered.pool,
    numbered.award_id,
    numbered.awarded_us,
    coalesce(aliases.player_id, numbered.player_id) as player_id,
    numbered.player_id as raw_player_id,
    numbered.points,
    numbered.reason,
    case
        when numbered.lacks_id then 'missing_id'
        when numbered.awarded_us is null then 'missing_time'
        when numbered.copies_differ then 'conflicting_copies'
        when numbered.copy_no > 1 then 'duplicate'
        when numbered.awarded_us > settings.as_of_us then 'held'
        when excluded.player_id is not null then 'unrated'
        when
            numbered.points is null
            or not isfinite(numbered.points)
            or (settings.whole_points and numbered.points <> floor(numbered.points))
            then 'bad_points'
        else 'applied'
    end as verdict
from numbered
cross join settings
left join aliases on numbered.player_id = aliases.alias_id
left join excluded on coalesce(aliases.player_id, numbered.player_id) = excluded.player_id

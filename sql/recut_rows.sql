-- Purpose: the stored rows of the chunks that are made anew, as far as nothing happened to them.
-- Grain: one row a stored row.
-- Inputs: stored_rows (of the chunks concerned, and those that belong to no chunk), recut (from_us, to_us of what is made anew, a few
--   intervals apart from each other), withdrawn_days, affected (game_id: their rows have been resolved anew), undated_anew (one row:
--   whether the rows that belong to no chunk are made anew).
select stored_rows.*
from stored_rows
anti join withdrawn_days
    on
        stored_rows.file_no = withdrawn_days.file_no
        and case when stored_rows.is_dated then utc_day(stored_rows.played_us) end is not distinct from withdrawn_days.day
anti join affected on stored_rows.is_dated and stored_rows.game_id = affected.game_id
where
    case
        when stored_rows.is_dated
            then
                exists (
                    select 1
                    from recut
                    where stored_rows.played_us >= recut.from_us and stored_rows.played_us < recut.to_us
                )
        else (select is_anew from undated_anew)
    end

-- Purpose: how many game ids stand more than once, and what became of their rows.
-- Grain: one row.
-- Inputs: repeated (the ids), copy_verdicts (rows taken out), conflicting (rows of conflicting copies).
select
    (select cast(count(*) as bigint) from repeated) as repeated_ids,
    (select cast(count(*) as bigint) from copy_verdicts where verdict = 'duplicate') as duplicate_rows,
    (select cast(count(*) as bigint) from conflicting) as conflicting_rows,
    (select cast(count(distinct game_id) as bigint) from conflicting) as conflicting_ids

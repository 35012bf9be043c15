-- Purpose: every row of one game that was read, with what became of it.
-- Grain: one row a row of a file.
-- Inputs: game_rows (the game's stored rows, with their standing among its copies), judged (the verdicts of those that stay).
-- Order: by place.
select
    game_rows.*,
    case when game_rows.standing = 'stays' then judged.verdict else game_rows.standing end as verdict,
    judged.winner_id as judged_winner_id,
    judged.loser_id as judged_loser_id
from game_rows
left join judged on game_rows.file_no = judged.file_no and game_rows.row_no = judged.row_no
order by game_rows.file_no, game_rows.row_no

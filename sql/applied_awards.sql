-- Purpose: the awards that move a rating, in their order.
-- Grain: one row an award.
-- Inputs: awards_judged, player_index.
-- Order: (instant, award_id); ids are unique after copies are resolved, so it is total.
select
    awards_judged.pool,
    awards_judged.award_id,
    awards_judged.awarded_us,
    awards_judged.player_id,
    awards_judged.points,
    awards_judged.reason,
    player_index.player_index
from awards_judged
inner join player_index
    on awards_judged.pool = player_index.pool and awards_judged.player_id = player_index.player_id
where awards_judged.verdict = 'applied'
order by awards_judged.awarded_us, awards_judged.award_id

-- Purpose: the rated games as `sql/rule_terms.sql` reads them, from the timeline that stands: inputs that the rules do not use are NULL
--   there as well.
-- Grain: one row a rated game.
-- Inputs: timeline (pool '' where there is one pool only, as the state knows it).
select
    pool,
    game_id,
    epoch_us(played_at) as played_us,
    winner_id,
    loser_id,
    is_draw,
    cube,
    match_length,
    result,
    weight,
    advantage
from timeline

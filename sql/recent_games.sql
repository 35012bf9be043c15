-- Purpose: the rated games before a stretch that its counting window can reach, from the timeline that stands.
-- Grain: one row a game, in the total order.
-- Inputs: timeline_before (pool '' when there is one pool only), player_index, $from_us (microseconds).
select
    epoch_us(timeline_before.played_at) as played_us,
    winners.player_index as winner_index,
    losers.player_index as loser_index
from timeline_before
inner join player_index as winners
    on timeline_before.pool = winners.pool and timeline_before.winner_id = winners.player_id
inner join player_index as losers
    on timeline_before.pool = losers.pool and timeline_before.loser_id = losers.player_id
where epoch_us(timeline_before.played_at) >= $from_us
order by timeline_before.seq

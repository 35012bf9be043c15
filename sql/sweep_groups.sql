-- Purpose: the group of every player, for intervals that respect that players repeat.
-- Grain: one row a player of a pool, in the order of his position.
-- Inputs: player_index; $groups.
-- The group follows from the id alone, by a hash that is the same in every version of every library: the same player is in the same
--   group in every pool, sweep and year.
select cast(md5_number_lower(cast(player_id as varchar)) % cast($groups as uhugeint) as smallint) as player_group
from player_index
order by player_index

-- Purpose: the kinds of games that a setting of the rules tells apart before any rating is known.
-- Grain: one row a rule version, cube, match length and result that occur together in a rated game.
-- Inputs: rule_terms (the view of sql/rule_terms.sql over the rated games).
-- Weights are no part of a kind, for they may all differ: they multiply the stake last, and a sweep's kernel does that.
select
    cast(version_index as bigint) as version_index,
    cast(cube as bigint) as cube,
    cast(match_length as bigint) as match_length,
    result
from rule_terms
group by all
order by all

-- Purpose: what the rules say of each game before any rating is known: version, k (before week, ramp and steps), divisor and stake.
-- Grain: one row a row of rule_inputs; a row before the first version has none.
-- Inputs: rule_inputs (played_us, cube, match_length, result, weight, and more that is passed through; in a run the view of that name, else
--   made-up rows); rule_versions (one row a version, unique from_us).
-- Edges: a version is in force in [from, next from): ASOF takes the last from_us at or before the game.
select
    rule_inputs.*,
    rule_versions.version_index,
    rule_versions.k,
    case
        when rule_versions.divide_by_sqrt_length then rule_versions.divisor / sqrt(rule_inputs.match_length)
        else rule_versions.divisor
    end as divisor,
    rule_versions.stake_base
    * case rule_versions.cube_rule
        when 'times' then cast(rule_inputs.cube as double)
        when 'log2' then 1.0 + log2(rule_inputs.cube) / rule_versions.cube_doublings
        else 1.0
    end
    * case when rule_versions.stake_by_sqrt_length then sqrt(rule_inputs.match_length) else 1.0 end
    * case rule_inputs.result
        when 'gammon' then rule_versions.gammon_factor
        when 'backgammon' then rule_versions.backgammon_factor
        when 'single' then rule_versions.single_factor
        else 1.0
    end
    * case when rule_versions.stake_by_weight then rule_inputs.weight else 1.0 end as stake
from rule_inputs
asof inner join rule_versions on rule_inputs.played_us >= rule_versions.from_us

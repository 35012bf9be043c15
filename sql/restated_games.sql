-- Purpose: what became of the games since the run before: new, late, corrected, or no longer rated and why.
-- Grain: one row a UTC day and kind that occurs.
-- Inputs: differing (from_us, to_us: where games may differ); timeline_before (the old timeline there; pool '' when there is one pool
--   only), rule_inputs (what is rated now), judged, set_aside, $horizon_us (instant of the last game or award of the run before; NULL:
--   there was none), $shown (ids that are listed, the earliest first).
-- Kinds: 'new' after the horizon; 'late' a game that was not there and lies at or before it; 'corrected' the same game with other players,
--   time or inputs; else why it is not rated any more: its verdict now, or 'withdrawn' when no file has it any more.
with old as (
    select
        *,
        epoch_us(played_at) as played_us
    from timeline_before
),

now as (
    select *
    from rule_inputs
    where exists (
        select 1
        from differing
        where rule_inputs.played_us >= differing.from_us and rule_inputs.played_us < differing.to_us
    )
),

paired as (
    select
        coalesce(old.game_id, now.game_id) as game_id,
        coalesce(old.played_us, now.played_us) as played_us,
        old.game_id is not null as was_rated,
        now.game_id is not null as is_rated,
        old.played_us is distinct from now.played_us
        or old.pool is distinct from now.pool
        or old.winner_id is distinct from now.winner_id
        or old.loser_id is distinct from now.loser_id
        or old.is_draw is distinct from now.is_draw
        or old.cube is distinct from now.cube
        or old.match_length is distinct from now.match_length
        or old.result is distinct from now.result
        or old.weight is distinct from now.weight
        or old.advantage is distinct from now.advantage as differs
    from old
    full join now on old.game_id = now.game_id
),

reasons as (
    select game_id, min(verdict) as verdict
    from (
        select game_id, verdict
        from judged
        where verdict <> 'rated'
        union all
        select game_id, verdict
        from set_aside
        where verdict = 'conflicting_copies'
    )
    where game_id in (select game_id from paired where not is_rated)
    group by game_id
),

kinds as (
    select
        paired.game_id,
        paired.played_us,
        utc_day(paired.played_us) as day,
        case
            when not paired.was_rated and paired.played_us > $horizon_us then 'new'
            when not paired.was_rated and $horizon_us is null then 'new'
            when not paired.was_rated then 'late'
            when paired.is_rated then 'corrected'
            else coalesce(reasons.verdict, 'withdrawn')
        end as kind
    from paired
    left join reasons on paired.game_id = reasons.game_id and not paired.is_rated
    where paired.differs
)

select
    day,
    kind,
    cast(count(*) as bigint) as games,
    list_slice(list(game_id order by played_us asc, game_id asc), 1, $shown) as first_ids
from kinds
group by day, kind
order by day, kind

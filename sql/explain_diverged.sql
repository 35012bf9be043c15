-- Purpose: the games in which two runs of one history differ, up to an instant: by their own facts, or only by what they carry on.
-- Grain: one row a game that differs.
-- Inputs: timeline_before, timeline_now (the files that the runs do not share; pool NULL where there is one pool only), $until_us
--   (microseconds, included).
-- Kinds: 'late' only now, 'gone' only before, 'corrected' other facts, 'carried' the same facts and other ratings, k or counts.
-- Few games of many differ, so the two are held against each other by a hash of each row first: a difference that it hid (one of
--   2^64) would only leave a cause unnamed.
-- differs: per side, whether what the game says of that player is another; a player who is only on one side of the two counts as such.
with contents_before as (
    select
        game_id,
        hash(
            pool, played_at, winner_id, loser_id, is_draw, cube, match_length, result, weight, advantage, winner_rating_before,
            loser_rating_before, winner_change, loser_change, winner_k, loser_k, winner_games, loser_games, winner_recent_games,
            loser_recent_games, winner_experience, loser_experience
        ) as content
    from timeline_before
    where epoch_us(played_at) <= $until_us
),

contents_now as (
    select
        game_id,
        hash(
            pool, played_at, winner_id, loser_id, is_draw, cube, match_length, result, weight, advantage, winner_rating_before,
            loser_rating_before, winner_change, loser_change, winner_k, loser_k, winner_games, loser_games, winner_recent_games,
            loser_recent_games, winner_experience, loser_experience
        ) as content
    from timeline_now
    where epoch_us(played_at) <= $until_us
),

differing as (
    select coalesce(contents_now.game_id, contents_before.game_id) as game_id
    from contents_before
    full join contents_now on contents_before.game_id = contents_now.game_id
    where contents_before.content is distinct from contents_now.content
),

before as (
    select
        *,
        epoch_us(played_at) as played_us
    from timeline_before
    where epoch_us(played_at) <= $until_us and game_id in (select game_id from differing)
),

now as (
    select
        *,
        epoch_us(played_at) as played_us
    from timeline_now
    where epoch_us(played_at) <= $until_us and game_id in (select game_id from differing)
),

paired as (
    select
        coalesce(now.game_id, before.game_id) as game_id,
        coalesce(now.pool, before.pool) as pool,
        least(coalesce(now.played_us, before.played_us), coalesce(before.played_us, now.played_us)) as played_us,
        now.winner_id,
        now.loser_id,
        before.winner_id as winner_before,
        before.loser_id as loser_before,
        case
            when before.game_id is null then 'late'
            when now.game_id is null then 'gone'
            when
                before.played_us is distinct from now.played_us
                or before.pool is distinct from now.pool
                or before.winner_id is distinct from now.winner_id
                or before.loser_id is distinct from now.loser_id
                or before.is_draw is distinct from now.is_draw
                or before.cube is distinct from now.cube
                or before.match_length is distinct from now.match_length
                or before.result is distinct from now.result
                or before.weight is distinct from now.weight
                or before.advantage is distinct from now.advantage
                then 'corrected'
            else 'carried'
        end as kind,
        before.winner_rating_before is distinct from now.winner_rating_before
        or before.winner_change is distinct from now.winner_change
        or before.winner_k is distinct from now.winner_k
        or before.winner_games is distinct from now.winner_games
        or before.winner_recent_games is distinct from now.winner_recent_games
        or before.winner_experience is distinct from now.winner_experience as winner_differs,
        before.loser_rating_before is distinct from now.loser_rating_before
        or before.loser_change is distinct from now.loser_change
        or before.loser_k is distinct from now.loser_k
        or before.loser_games is distinct from now.loser_games
        or before.loser_recent_games is distinct from now.loser_recent_games
        or before.loser_experience is distinct from now.loser_experience as loser_differs
    from before
    full join now on before.game_id = now.game_id
)

select *
from paired
where kind <> 'carried' or winner_differs or loser_differs

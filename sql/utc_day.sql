-- Purpose: the UTC day of an instant, as a number of days since 1970: cut by floor, before 1970 as well.
-- Grain: a macro, made once a connection: utc_day(microseconds).
create or replace temp macro utc_day(us) as (
    (us - case when us % 86400000000 < 0 then us % 86400000000 + 86400000000 else us % 86400000000 end) // 86400000000
)

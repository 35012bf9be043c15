-- Purpose: the refused rows of chunks that stay as they are.
-- Grain: one row a refused row.
-- Inputs: refused_before (of the run before), recut (from_us, to_us of the chunks that are made anew), undated_anew (one row).
select refused_before.*
from refused_before
where
    case
        when refused_before.played_us is null then not (select is_anew from undated_anew)
        else not exists (
            select 1
            from recut
            where refused_before.played_us >= recut.from_us and refused_before.played_us < recut.to_us
        )
    end

"""How each number of a page is defined, in a sentence each; `docs/outputs.md` has every column."""

from __future__ import annotations

from eloreplay.report_parts import Section

TABLES = "Every number of this page stands, with all its digits, in the tables of the folder that the page was made in."
#: Beside an interval: what it takes for granted.
TOO_NARROW = (
    "as if games were independent; the same players meet again, so the truth is less sure: "
    "`eloreplay calibrate --bootstrap` gives wider ones"
)
RESPECTS = "which respects that players repeat"
Interval = tuple[float | None, float | None]

#: Of a run's and a study's page.
TERMS = (
    (
        "rating",
        "What the rules make of a player's games, in points; a change is rounded once, as the rules say, and then added.",
    ),
    (
        "favourite",
        "The side with the higher expected score before the game. Where both have ½ there is none, and the game is left out.",
    ),
    ("expected", "Mean expected score of the favourites, from the ratings before each game."),
    ("real", "Share of games that the favourites won; a draw counts ½."),
    (
        "95 % interval",
        "Wilson's, as if games were independent; of a study with --bootstrap, one that respects that the same players "
        "meet again. Without it, take it as the narrowest interval that could be right.",
    ),
    (
        "gap",
        "Difference of the two ratings before the game, an advantage included, in bins 25 points wide, the last one open from 500.",
    ),
    ("log loss", "Mean of −ln of the expected score of who won; lower is better. Who always says ½ has 0.6931."),
    (
        "Brier score",
        "Mean of the squared difference of result and expected score; lower is better. Who always says ½ has 0.25.",
    ),
    (
        "calibration error",
        "Mean distance of real and expected over ten equal bins of the expected score, weighted by games. Never 0, by luck.",
    ),
    (
        "slope, intercept",
        "Of a logistic regression of the favourites' results on the logit of their expected score; 1 and 0 tell the truth.",
    ),
    ("divisor that fits", "The divisor under which the results are likeliest, given the ratings that these rules made."),
    ("active", "Who played in the last 30 days: of the history, of the month, of the version."),
    ("middle half", "From the rating that a quarter of the players stands below, to the one that a quarter stands above."),
    ("top tenth", "Sides whose rating before the game was among the highest tenth of all ratings before a game of that month."),
    (
        "weekly swing",
        "Root of the mean square of what a week of a month (1st to 7th, 8th to 14th, 15th to 21st, 22nd to 28th) changed "
        "in a rating.",
    ),
    ("heavy", "A side's K is the reduced one of a heavy week; of a week: in most of its games."),
    ("points created", "Sum of both changes over all games; negative when points vanished."),
    ("restated", "What changed in the past: late, corrected or withdrawn games; the rest of a change is by new games."),
)

#: Of a sweep's page.
SWEEP_TERMS = (
    (
        "log loss",
        "Mean of −ln of the expected score of who won, over the games scored; lower is better. Who always says ½ has 0.6931.",
    ),
    ("difference", "Log loss of the setting less that of the rules as they are, game by game over the same games."),
    ("95 % interval", "Respects that players repeat; the interval of a difference is far narrower than that of a log loss."),
    (
        "behind the best",
        "Log loss less that of the best setting: when the whole interval is above 0, the setting is surely worse.",
    ),
    ("best in draws", "Share of the bootstrap's draws of player groups in which the setting is the best of all."),
    ("middle half", "Width of the middle half of the active players' ratings at the end, points."),
    ("weekly swing", "Mean distance that a calendar week of 1 to 49 games moved a player, points."),
    ("slope", "Of the favourites' results on the logit of their expected score; 1 tells the truth."),
)


def divisor_verdict(own: float | None, fitted: Interval, slope: Interval) -> str:
    """What the fitted divisor and the slope say about the rules, in sentences; docs/how-to-analyst.md has the measurements.

    Args:
        own: the divisor of the rules; None when versions differ in it, and then the slope decides.
        fitted: interval of the divisor that fits.
        slope: interval of the slope.
    """
    if own is not None:
        more, less = fitted[0] is not None and fitted[0] > own, fitted[1] is not None and fitted[1] < own
    else:
        more, less = slope[1] is not None and slope[1] < 1, slope[0] is not None and slope[0] > 1
    compare = (
        "What decides between rules is the log loss of the same games replayed under each (`eloreplay sweep`): "
        "the lower is the better."
    )
    reads = "the fitted divisor only reads anew the ratings that these rules made"
    if more:
        return (
            f"Favourites won less often than promised. That alone does not make the rules wrong: {reads}, and the noise that K "
            "puts into ratings makes it too large, and the slope less than 1, even when the rules' divisor is the true one. "
            f"{compare}"
        )
    if less:
        return (
            "Favourites won more often than promised, which the noise that K puts into ratings cannot explain: the divisor may "
            "be too large, or ratings come too slowly to where they belong (a small K, a short history). But "
            f"{reads}. {compare}"
        )
    return (
        "The interval holds what the rules say, so these games do not contradict them; that does not make them the best: "
        f"{reads}. {compare}"
    )


def terms_section() -> Section:
    """How each number of a run or study is defined."""
    return Section("terms", "How each number is defined", [[TABLES]], terms=TERMS)


def sweep_terms_section() -> Section:
    """How each number of a sweep is defined."""
    lead = [["The best of many settings is the best partly by luck: a setting that was chosen on other games is praised honestly."]]
    return Section("terms", "How each number is defined", lead, terms=SWEEP_TERMS)

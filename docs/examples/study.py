# ruff: noqa: B018, N803
"""A marimo notebook: a published run, and its study done again in a few cells.

marimo edit docs/examples/study.py -- --run out/sample    to work with it
python docs/examples/study.py --run out/sample            to run it as a script
"""

import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="Do the ratings tell the truth?")


@app.cell
def _():
    from pathlib import Path

    import altair as alt
    import duckdb
    import marimo as mo
    import polars as pl

    return Path, alt, duckdb, mo, pl


@app.cell
def _(Path, mo):
    # The run: what `current` leads to when the notebook starts, so that a night cannot change it under the study.
    run = (Path(mo.cli_args().get("run") or "out/sample") / "current").resolve()
    mo.md(f"# Do the ratings tell the truth?\n\nRun `{run.name}` of `{run.parent.parent}`.")
    return (run,)


@app.cell
def _(duckdb, run):
    # The favourite is the side with the higher expected score before the game; a draw counts half.
    games = duckdb.sql(f"""
        select
            greatest(winner_expected, 1 - winner_expected) as expected,
            case when is_draw then 0.5 when winner_expected > 0.5 then 1.0 else 0.0 end as won,
            abs(winner_rating_before - loser_rating_before + coalesce(advantage, 0)) as gap
        from read_parquet('{run}/timeline/*.parquet')
    """)
    # One row a bin of 25 points, of the games that have a favourite.
    curve = duckdb.sql("""
        select least(floor(gap / 25) * 25, 500) as bin_low, count(*) as games, avg(won) as real_rate, avg(expected) as expected_rate
        from games
        where expected > 0.5
        group by bin_low
        order by bin_low
    """).pl()
    curve
    return curve, games


@app.cell
def _(alt, curve):
    # Dots below the line: the ratings promise favourites too much.
    base = alt.Chart(curve).encode(x=alt.X("bin_low:Q", title="gap in rating, points"))
    promised = base.mark_line(color="#c04f00").encode(y=alt.Y("expected_rate:Q", scale=alt.Scale(zero=False), title="won"))
    happened = base.mark_circle(color="#0067a8", size=60, opacity=1).encode(y="real_rate:Q", tooltip=["games", "real_rate"])
    (promised + happened).properties(width=600, title="Favourites: expected (line) and real (dots)")
    return


@app.cell
def _(curve, pl, run):
    # The run has counted the same: its own curve, bin by bin.
    published = pl.read_parquet(run / "calibration.parquet").filter(pl.col("games") > 0, slice="all", axis="gap")
    side_by_side = published.select("bin_low", "games", "real_rate", "expected_rate").join(curve, on="bin_low", suffix="_here")
    side_by_side
    return published, side_by_side


@app.cell
def _(duckdb, games):
    # How good the forecasts of all games were: a coin has 0.6931 and 0.25.
    scores = duckdb.sql("""
        select
            count(*) as games,
            avg(-won * ln(expected) - (1 - won) * ln(1 - expected)) as log_loss,
            avg((won - expected) ** 2) as brier_score,
            count(*) filter (expected > 0.5) as favourites,
            avg(won) filter (expected > 0.5) as real_rate,
            avg(expected) filter (expected > 0.5) as expected_rate
        from games
    """).pl()
    scores
    return (scores,)


@app.cell
def _(mo, published, scores, side_by_side):
    row = scores.row(0, named=True)
    assert side_by_side.height == published.height
    assert side_by_side["games"].equals(side_by_side["games_here"].cast(int), check_names=False)
    said = (
        f"{row['games']:,} rated games, {row['favourites']:,} with a favourite: expected {row['expected_rate']:.2%}, "
        f"real {row['real_rate']:.2%}, log loss {row['log_loss']:.4f}, Brier score {row['brier_score']:.4f}"
    )
    print(said)  # noqa: T201
    mo.md(said)
    return


if __name__ == "__main__":
    app.run()

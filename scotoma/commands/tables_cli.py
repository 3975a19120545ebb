"""The commands on one table of predictions or runs, as the command line takes them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["bias", "variance"]


def _explain(asked: bool) -> None:
    if asked:
        from scotoma.commands.bias_explain import print_guide

        print_guide()
        raise typer.Exit


def bias(
    table: Annotated[Path, typer.Argument(help="CSV or Parquet, one row an example.")],
    label: Annotated[str, typer.Option(help="Column of the true labels.")],
    predicted: Annotated[
        list[str],
        typer.Option(help="Column of predicted labels, or a pattern ('pruned_*') for several."),
    ],
    group: Annotated[list[str], typer.Option(help="Column whose values are groups; repeatable.")],
    examples: Annotated[
        Path | None,
        typer.Option(
            help="Labels and groups; TABLE then has example_id, variant, model, predicted."
        ),
    ] = None,
    baseline: Annotated[
        list[str] | None, typer.Option(help="Columns of the models to compare with.")
    ] = None,
    positive: Annotated[str | None, typer.Option(help="The favourable label.")] = None,
    advantaged: Annotated[
        list[str] | None, typer.Option(help="VALUE, or COLUMN=VALUE, of the favoured group.")
    ] = None,
    intersections: Annotated[
        bool, typer.Option("--intersections", help="Also every combination of groups.")
    ] = False,
    paired: Annotated[
        bool, typer.Option("--paired", help="Each model derives from its baseline model.")
    ] = False,
    identifier: Annotated[
        str | None, typer.Option("--id", help="Column of example ids, checked to be unique.")
    ] = None,
    cluster: Annotated[
        str | None, typer.Option(help="Column of clusters: rows that belong together.")
    ] = None,
    strata: Annotated[str | None, typer.Option(help="Column of strata, for CDDL, CDDPL.")] = None,
    feature: Annotated[
        list[str] | None, typer.Option(help="Column of numbers, or a pattern, for FT.")
    ] = None,
    level: Annotated[float, typer.Option(help="Coverage of the intervals.")] = 0.95,
    seed: Annotated[int, typer.Option(help="Of the bootstrap behind upper bounds.", min=0)] = 0,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain",
            callback=_explain,
            is_eager=True,
            help="Say which of the 21 metrics answers which question, and end.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, unrounded.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No messages.")] = False,
) -> None:
    """Measure which groups a model fails, from predictions made anywhere."""
    from scotoma.commands.bias import BiasQuestion, run_bias

    question = BiasQuestion(
        label=label, predicted=predicted, groups=group, baseline=baseline or (),
        advantaged=advantaged or (), intersections=intersections, positive=positive,
        identifier=identifier, cluster=cluster, strata=strata, features=feature or (),
        paired=paired, level=level, seed=seed,
    )  # fmt: skip
    run_bias(table, question, examples=examples, as_json=as_json, quiet=quiet)


def variance(
    table: Annotated[Path, typer.Argument(help="CSV or Parquet, one row a run and metric.")],
    base: Annotated[
        str | None, typer.Option(help="Technique that the others are compared with.")
    ] = None,
    technique: Annotated[str, typer.Option(help="Column: how a run was trained.")] = "technique",
    metric: Annotated[str, typer.Option(help="Column: what was measured.")] = "metric",
    run: Annotated[str, typer.Option(help="Column: which run of the technique.")] = "run",
    value: Annotated[str, typer.Option(help="Column of the values.")] = "value",
    class_column: Annotated[
        str | None, typer.Option("--class", help="Column: which class a value is of.")
    ] = None,
    protocol: Annotated[str, typer.Option(help="sound, or published: the study's.")] = "sound",
    level: Annotated[float, typer.Option(help="Coverage of the intervals.")] = 0.95,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, unrounded.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No messages.")] = False,
) -> None:
    """Measure how far identical runs lie apart, and which techniques differ."""
    from scotoma.commands.variance import VarianceQuestion, run_variance

    question = VarianceQuestion(
        base=base, technique=technique, metric=metric, run=run, value=value,
        class_column=class_column, protocol=protocol, level=level,
    )  # fmt: skip
    run_variance(table, question, as_json=as_json, quiet=quiet)

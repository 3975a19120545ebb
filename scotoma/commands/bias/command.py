"""`scotoma bias`."""

from __future__ import annotations

from typing import Annotated

import typer

from scotoma.commands.shared import options

__all__ = ["bias"]


def _explain(wanted: bool) -> None:
    if wanted:
        from scotoma.commands.bias.explain import print_guide

        print_guide()
        raise typer.Exit


def bias(
    table: options.Table,
    predicted: Annotated[
        list[str],
        typer.Option(
            help="Column of predicted labels. Repeat it, or give a pattern such as 'pruned_*', "
            "for several models."
        ),
    ],
    group: Annotated[
        list[str],
        typer.Option(
            help="Columns whose values are groups, separated by commas; of numbers also COLUMN:4 "
            "(groups of about equal size) or COLUMN:18,40,65 (where they begin), of dates "
            "COLUMN:month. Can be repeated."
        ),
    ],
    label: Annotated[
        str | None,
        typer.Option(
            help="Column of the true labels, or numbers. Not needed with --score lower or higher, "
            "nor with --four-fifths."
        ),
    ] = None,
    score: Annotated[
        str | None,
        typer.Option(
            help="The columns of --predicted hold numbers: scores of which `lower` or `higher` is "
            "better, or predictions whose `absolute_error` or `squared_error` is measured."
        ),
    ] = None,
    examples: Annotated[
        str | None,
        typer.Option(
            help="File of labels and groups, if TABLE holds only example_id, variant, model and "
            "predicted."
        ),
    ] = None,
    baseline: Annotated[
        list[str] | None,
        typer.Option(help="Column, or pattern, of the models to compare with. Can be repeated."),
    ] = None,
    positive: Annotated[
        list[str] | None,
        typer.Option(help="The favourable label. Can be repeated: several count as one class."),
    ] = None,
    advantaged: Annotated[
        list[str] | None,
        typer.Option(help="The advantaged group: VALUE or COLUMN=VALUE. Can be repeated."),
    ] = None,
    intersections: Annotated[
        bool, typer.Option("--intersections", help="Measure every combination of groups too.")
    ] = False,
    paired: Annotated[
        bool, typer.Option("--paired", help="Each model was made from its baseline model.")
    ] = False,
    identifier: Annotated[
        str | None, typer.Option("--id", help="Column of example ids, which must be unique.")
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(help="Column of clusters: rows that belong together, such as one person's."),
    ] = None,
    strata: Annotated[
        str | None, typer.Option(help="Column of strata, for the metrics CDDL and CDDPL.")
    ] = None,
    feature: Annotated[
        list[str] | None,
        typer.Option(help="Column of numbers, or a pattern, for the metric FT. Can be repeated."),
    ] = None,
    four_fifths: Annotated[
        bool,
        typer.Option(
            "--four-fifths",
            help="Print only how often each group is selected beside the group selected most: the "
            "four-fifths rule of US law. Needs --positive and no --label; missing values are "
            "counted as unknown.",
        ),
    ] = False,
    level: options.ConfidenceLevel = 0.95,
    seed: Annotated[int, typer.Option(help="Seed of the bootstrap for upper bounds.", min=0)] = 0,
    everything: Annotated[
        bool,
        typer.Option("--all", help="Print every rate and metric before the conclusions."),
    ] = False,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain",
            callback=_explain,
            is_eager=True,
            help="Explain which question each of the 21 metrics answers, and exit.",
        ),
    ] = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Measure which groups a model fails, from a table of its predictions."""
    from scotoma.commands.bias.measure import BiasQuestion, run_bias
    from scotoma.commands.bias.scores import run_bias_of_scores
    from scotoma.errors import ConfigError
    from scotoma.run.copies import place_here

    if label is None and score not in ("lower", "higher") and not four_fifths:
        raise ConfigError("--label is missing; name the column of the true labels")
    question = BiasQuestion(
        label=label or "", predicted=predicted, groups=group, baseline=baseline or (),
        advantaged=advantaged or (), intersections=intersections, positive=positive or (),
        identifier=identifier, cluster=cluster, strata=strata, features=feature or (),
        paired=paired, level=level, seed=seed,
    )  # fmt: skip
    if score is not None:
        unread = {
            "--examples": examples, "--positive": positive, "--advantaged": advantaged,
            "--strata": strata, "--feature": feature, "--four-fifths": four_fifths,
        }  # fmt: skip
        run_bias_of_scores(
            place_here(table), question, score, as_json=as_json, quiet=quiet,
            unread=[name for name, value in unread.items() if value],
        )  # fmt: skip
        return
    run_bias(
        place_here(table), question, examples=None if examples is None else place_here(examples),
        four_fifths=four_fifths, everything=everything, as_json=as_json, quiet=quiet,
    )  # fmt: skip

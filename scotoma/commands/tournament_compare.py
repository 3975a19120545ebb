"""The tournament command: runs of techniques in, a page and its numbers out."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import cast

from scotoma.commands.paper_pages import as_markdown, as_text
from scotoma.commands.slices_search import harmless
from scotoma.commands.tables import listed, quoted
from scotoma.commands.tournament_runs import read_finished, read_raw
from scotoma.commands.tournament_tables import TournamentResult, as_content, as_rows, as_tables
from scotoma.errors import ConfigError
from scotoma.inputs import StatisticsProtocol
from scotoma.jsonable import jsonable
from scotoma.published import fairness_variance
from scotoma.report.tournament import render_tournament
from scotoma.storage.files import written
from scotoma.tournament import (
    SurvivalCell,
    TechniqueRuns,
    baselines,
    compare_paired,
    compare_techniques,
    survival_cells,
)

__all__ = ["TournamentQuestion", "compare", "run_tournament"]

PUBLISHED = (
    "Published totals are those of Qian et al. 2021 over all 154 cells of their study; other "
    "techniques or fewer of them give other totals."
)
READS_GROUPS = (
    "Technique {} reads the group of each test example, which may be unlawful or unknown in use: "
    "do not rank it with the others."
)
UNPAIRED = (
    "Members of {} do not derive from the dense ones, so their pairs are arbitrary and intervals "
    "of survival wider: population.forked pairs them in training."
)


@dataclass(frozen=True, kw_only=True)
class TournamentQuestion:
    """What is asked of a tournament.

    Attributes:
        runs: Finished audits, `FOLDER` or `TECHNIQUE=FOLDER`, or one configuration to train.
        raw: Table or folder of raw values; None takes `runs`.
        bases: Baselines by name; none finds them by their names.
        shared: Patterns of techniques that share their runs.
        variant: Variant of finished audits whose members are compared; None for dense.
        attribute: Attribute of finished audits; None where they have one.
        protocol: `sound` or `published`.
        level: Coverage of the intervals, a fraction in (0, 1).
        folder: Where audits of a configuration go; None for `runs/PROJECT`.
        quiet: Write nothing to stderr.
    """

    runs: tuple[str, ...] = ()
    raw: Path | None = None
    bases: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    variant: str | None = None
    attribute: str | None = None
    protocol: str = "sound"
    level: float = 0.95
    folder: Path | None = None
    quiet: bool = False


def run_tournament(question: TournamentQuestion, out: Path, formats: Sequence[str]) -> None:
    """Compare techniques, write the page and print the numbers.

    Args:
        question: What is asked.
        out: The page.
        formats: What to print instead of text: `json`, `csv` or `markdown`, one at most.

    Raises:
        ScotomaError: The options or the runs do not fit together.
    """
    if len(formats) > 1:
        raise ConfigError(f"--{formats[0]} and --{formats[1]} exclude each other; choose one")
    result = compare(question)
    with written(out) as temporary:
        temporary.write_text(
            render_tournament(
                result.title,
                result.tournament,
                aims=result.aims,
                published=result.published,
                paired=result.paired,
                survival=result.survival,
                remarks=result.remarks,
            ),
            encoding="utf-8",
        )
    chosen = formats[0] if formats else "text"
    if chosen == "json":
        text = json.dumps(jsonable(as_content(result)), indent=1, allow_nan=False)
    elif chosen == "csv":
        text = harmless(as_rows(result)).write_csv().rstrip("\n")
    else:
        head = " ".join([f"{result.title}: techniques against their baselines.", *result.remarks])
        write = as_markdown if chosen == "markdown" else as_text
        text = "\n".join(write(head, as_tables(result, details=chosen == "markdown")))
    sys.stdout.write(text + "\n")
    if not question.quiet:
        sys.stderr.write(f"note    page written to {out}\n")


def compare(question: TournamentQuestion) -> TournamentResult:
    """Read the runs and compare them.

    Args:
        question: What is asked.

    Raises:
        ConfigError: Options that do not fit together.
        DataError: Runs that cannot be compared.
    """
    if question.protocol not in ("sound", "published"):
        raise ConfigError(
            f"--protocol must be sound or published, got {quoted(question.protocol)}: choose one"
        )
    if (question.raw is None) == (not question.runs):
        raise ConfigError("tournament compares finished audits or --raw values; name one of them")
    survival: list[SurvivalCell] = []
    remarks = [PUBLISHED] if question.protocol == "published" else []
    question, families = _trained(question)
    if question.raw is not None:
        techniques, title = read_raw(question.raw), question.raw.name
        baseline_of = baselines([one.technique for one in techniques], question.bases)
    else:
        finished = read_finished(question.runs, question.attribute)
        techniques, title = finished.runs(question.variant), f"{len(finished.techniques)} audits"
        baseline_of = baselines(finished.techniques, question.bases)
        remarks += [READS_GROUPS.format(quoted(name)) for name in finished.reading_groups]
        if finished.unpaired:
            remarks.append(UNPAIRED.format(", ".join(finished.unpaired)))
        bases = list(dict.fromkeys(baseline_of.values()))
        for base in bases:
            own = [t for t, name in enumerate(finished.techniques)
                   if base in (name, baseline_of.get(name))]  # fmt: skip
            names = [finished.techniques[t] for t in own]
            survival += survival_cells(
                finished.bias[own], names, finished.variants, finished.metrics,
                accuracy=finished.accuracy[own], base=names.index(base), level=question.level,
            )  # fmt: skip
    protocol = cast(StatisticsProtocol, question.protocol)
    published = protocol == "published"
    study = fairness_variance()
    return TournamentResult(
        title=title or "tournament",
        tournament=compare_techniques(
            techniques, baseline_of, protocol=protocol, level=question.level
        ),
        paired=compare_paired(
            [*_families(techniques, question.shared), *_named(techniques, families)],
            level=question.level,
        ),
        survival=survival,
        published=study.totals if published else None,
        aims={
            f"{task}|{metric}": mark
            for task, marks in study.aims.items()
            for metric, mark in marks.items()
        }
        if published
        else {},
        remarks=remarks,
    )


def _trained(question: TournamentQuestion) -> tuple[TournamentQuestion, list[list[str]]]:
    """Train what a configuration asks for: its audits to compare, and who shares a training."""
    if len(question.runs) != 1 or not question.runs[0].lower().endswith((".yaml", ".yml")):
        if question.folder is not None:
            raise ConfigError("--runs is where audits of a configuration go; name one, or leave it")
        return question, []
    from scotoma.commands.tournament_train import shared_trainings, train_techniques

    config, places = train_techniques(Path(question.runs[0]), question.folder, quiet=question.quiet)
    contest = config.tournament
    attribute = question.attribute or (None if contest is None else contest.attribute)
    asked = replace(question, runs=tuple(places), attribute=attribute, bases=("base",))
    return asked, shared_trainings(config)


def _named(
    techniques: Sequence[TechniqueRuns], families: Sequence[Sequence[str]]
) -> list[list[TechniqueRuns]]:
    return [[one for one in techniques if one.technique in family] for family in families]


def _families(
    techniques: Sequence[TechniqueRuns], patterns: Sequence[str]
) -> list[list[TechniqueRuns]]:
    families = []
    for pattern in patterns:
        family = [one for one in techniques if fnmatchcase(one.technique, pattern)]
        if len(family) < 2:
            raise ConfigError(
                f"--shared {quoted(pattern)} must match two techniques or more, got {len(family)}: "
                f"choose among {listed([one.technique for one in techniques])}"
            )
        families.append(family)
    return families

"""What will an audit of scores see, and how much worse may a mean get before it shows?"""

from __future__ import annotations

import json
import math
import sys
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from scotoma.comparison.means import ScoreTable, score_table
from scotoma.config import Config
from scotoma.document import Cell, Column, Table
from scotoma.document.jsonable import jsonable
from scotoma.document.lines import wrapped
from scotoma.document.text import text_table
from scotoma.errors import ConfigError
from scotoma.numbers.inputs import Flags
from scotoma.printable import printable
from scotoma.sources.contract import Score
from scotoma.sources.reading import survey_examples

__all__ = [
    "ScoreForecast",
    "errors_needed",
    "forecast_of_scores",
    "read_scores",
    "smallest_worsening",
]

POWER, ALPHA = 0.8, 0.05
KNOWN = 1e5  # degrees of freedom from which a variance is taken for known
QUANTILES = (np.arange(15) + 0.5) / 15  # of the variance, which is itself an estimate
SELDOM = 2.0  # divides degrees of freedom that come from rows alone, which show few tails
PLANTINGS = 6  # rounds, each with the worsening of the one before


@dataclass(frozen=True)
class ScoreForecast:
    """One group, and what an audit of its scores can show.

    Attributes:
        key: Key of the group, as in audit.json.
        name: The same for people.
        n: Test examples; clusters where rows belong together.
        mean: Mean of the baseline, in the unit of the score.
        worse: By variant, the smallest worsening of the mean that is shown, a fraction: 0.02 for
            2%; None where the means are not above 0 or there is no interval.
    """

    key: str
    name: str
    n: int
    mean: float
    worse: dict[str, float | None]


def smallest_worsening(
    table: ScoreTable, inside: Flags, groups: int, *, lower_is_better: bool = True
) -> float | None:
    """Find the smallest worsening of a group's mean that is shown with 80% power.

    Shown: the change of the mean has a p of at most 5% after a correction over all groups. The
    worsening is planted in the scores, for what carries the mean makes the change vary, too: of
    losses with a long tail a few rows do.

    Args:
        table: Scores of both populations.
        inside: The group's rows, shape (n,).
        groups: How many are tested.
        lower_is_better: Of the score.

    Returns:
        A fraction: 0.02 for 2%. None where the means are not above 0 or there is no interval.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> before, after = np.exp(rng.normal(size=(2, 4000)))
    >>> table = score_table(before, after)
    >>> round(smallest_worsening(table, np.ones(4000, bool), 1), 2)
    0.08
    """
    own = table.change(inside)
    if own.log_variance is None or not own.log_variance.total > 0:
        return None
    level = table.after * (own.before.value / own.after.value)  # as if nothing had changed yet
    seldom = SELDOM if own.change.members == 1 else 1.0
    worse = 0.0
    for _ in range(PLANTINGS):
        factor = 1 + worse if lower_is_better else 1 / (1 + worse)
        variance = replace(table, after=level * factor).change(inside).variance
        if variance is None:
            return None
        needed = errors_needed(variance.df / seldom, groups)
        shift = needed * math.sqrt(variance.total) / own.before.value
        if not lower_is_better and shift >= 1:
            return None  # no mean above 0 is as much smaller
        worse = shift if lower_is_better else shift / (1 - shift)
    return worse


def errors_needed(df: float, groups: int) -> float:
    """Count the standard errors of a change that is shown with 80% power.

    The standard error is itself an estimate: the power is the mean over what it may be.

    Args:
        df: Degrees of freedom of the standard error, possibly inf.
        groups: How many are tested.

    >>> round(errors_needed(math.inf, 1), 2), round(errors_needed(10, 1), 2)
    (2.8, 3.37)
    """
    from scipy.optimize import brentq
    from scipy.special import chdtri

    from scotoma.power import chance_beyond  # SciPy comes with it

    free = min(max(df, 2.0), KNOWN)  # below 2 nothing is known of it
    seen = np.asarray(
        chdtri(free, QUANTILES) / free, np.float64
    )  # an estimated variance over the true one
    known, level = np.asarray(free), 1 - ALPHA / groups

    def lacking(effect: float) -> float:
        chances = chance_beyond(effect * np.sqrt(seen)[:, None], 1.0, seen, known, level=level)
        return POWER - float(chances.mean())

    return float(brentq(lacking, 0.0, 100 / ALPHA * groups))


def forecast_of_scores(config: Config, assumed_error: float | None, *, as_json: bool) -> None:
    """Print what an audit of scores will see.

    Args:
        config: Of the audit, as `complete` leaves it.
        assumed_error: Refused: the scores themselves say how they vary.
        as_json: Print JSON instead of text.

    Raises:
        ConfigError: An error is assumed.
        DataError: The scores cannot be read.
    """
    if assumed_error is not None:
        raise ConfigError("--assumed-error is for classes, and source.kind is scores; leave it out")
    score = _score(config)
    content, groups = read_scores(config)
    if as_json:
        shown = content | {"power": POWER, "groups": [asdict(one) for one in groups]}
        sys.stdout.write(json.dumps(jsonable(shown), indent=1, ensure_ascii=False) + "\n")
        return
    unit = f" in {score.unit}" if score.unit else ""
    better = "lower" if score.lower_is_better else "higher"
    count = content["models"]
    lines = wrapped(
        f"{config.project}: {content['test']:,} test examples, {count} "
        f"model{'' if count == 1 else 's'} of the baseline; {score.name}{unit}, {better} is "
        "better",
        later="  ",
    )
    names = [variant.name for variant in config.resolved_variants[1:]]
    columns = [
        Column("group", "group"), Column("n", "n", "count"), Column("mean", "mean", "score"),
        *(Column(f"w{at}", name, "percent") for at, name in enumerate(names)),
    ]  # fmt: skip
    rows: list[dict[str, Cell]] = [
        {"group": one.name, "n": one.n, "mean": one.mean,
         **{f"w{at}": "none" if (w := one.worse[name]) is None else 100 * w
            for at, name in enumerate(names)}}
        for one in groups
    ]  # fmt: skip
    lines += ["", *text_table(Table("groups", "", columns, rows)), ""]
    ratio = "compressed / dense" if score.lower_is_better else "dense / compressed"
    lines += wrapped(
        f"Per cent: the smallest rise of {ratio} of the mean that these very scores show with "
        f"{100 * POWER:.0f}% power, corrected for all {len(groups)} groups. A FAIL needs the "
        "margin of its rule on top.",
    )
    for note in content["notes"]:
        lines += wrapped(f"note    {printable(note)}", later=" " * 8)
    sys.stdout.write("\n".join(lines) + "\n")


def _score(config: Config) -> Score:
    score = config.source.score
    assert score is not None
    return score


def read_scores(config: Config) -> tuple[dict[str, Any], list[ScoreForecast]]:
    """Read the scores: what is known of them, and what each group can show.

    Raises:
        DataError: They cannot be read.
    """
    from scotoma.sources.answers import supplied_scores

    survey = survey_examples(config)
    examples, scores = supplied_scores(config, survey.examples.split("test"))
    partition = examples.partition()
    tables = {
        variant.name: score_table(
            scores["dense"], scores[variant.name], examples.clusters, paired=variant.paired
        )
        for variant in config.resolved_variants[1:]
    }
    number, lower = len(partition.keys), _score(config).lower_is_better

    def forecast(key: str, name: str, mask: Flags) -> ScoreForecast:
        worse: dict[str, float | None] = {}
        n = 0
        for variant, table in tables.items():
            n = table.change(mask).n
            worse[variant] = smallest_worsening(table, mask, number, lower_is_better=lower)
        return ScoreForecast(key, name, n, float(np.mean(scores["dense"][mask])), worse)

    content = {
        "version": 1,
        "project": config.project,
        "test": len(examples.ids),
        "clusters": number_of(examples.clusters, len(examples.ids)),
        "models": int(scores["dense"].shape[1]),
        "notes": list(examples.notes),
    }
    return content, [
        forecast(key, name, mask)
        for key, name, mask in zip(partition.keys, partition.names, partition.masks, strict=True)
    ]


def number_of(clusters: np.ndarray[Any, Any] | None, rows: int) -> int:
    """How many clusters there are; as many as rows where each is its own.

    >>> number_of(None, 4), number_of(np.array([0, 0, 1]), 3)
    (4, 2)
    """
    return rows if clusters is None else int(clusters.max()) + 1

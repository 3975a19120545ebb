"""What will an audit of scores see, and how much worse may a mean get before it shows?"""

from __future__ import annotations

import json
import math
import sys
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from scotoma.commands.shared.text_table import table_lines, wrapped
from scotoma.config import Config, ScoresSource
from scotoma.datasets import survey_examples
from scotoma.errors import ConfigError
from scotoma.inputs import Flags
from scotoma.jsonable import jsonable
from scotoma.printable import printable

__all__ = ["ScoreForecast", "forecast_of_scores", "smallest_worsening"]

POWER, ALPHA = 0.8, 0.05
KNOWN = 1e5  # degrees of freedom from which a variance is taken for known
QUANTILES = (np.arange(15) + 0.5) / 15  # of the variance, which is itself an estimate


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


def smallest_worsening(se: float, df: float, groups: int) -> float:
    """The smallest relative worsening that is shown with 80% power, a fraction.

    Shown: p at most 5% after a correction over all groups, two-sided. The standard error is itself
    an estimate: the power is the mean over what it may be.

    Args:
        se: Standard error of the logarithm of compressed / dense.
        df: Its degrees of freedom, possibly inf.
        groups: How many are tested.

    >>> round(smallest_worsening(0.01, math.inf, 1), 4), round(smallest_worsening(0.01, 10, 1), 4)
    (0.0284, 0.0343)
    """
    from scipy.optimize import brentq
    from scipy.special import chdtri, ndtr, stdtrit

    free = min(max(df, 2.0), KNOWN)  # below 2 nothing is known of it
    needed = float(stdtrit(free, 1 - ALPHA / 2 / groups))
    drawn = np.sqrt(chdtri(free, QUANTILES) / free)  # an estimated error over the true one

    def lacking(effect: float) -> float:
        return POWER - float(ndtr(effect * drawn[:, None] - needed * drawn).mean())

    return math.expm1(float(brentq(lacking, 0.0, 100 * needed)) * se)


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
    source = config.source
    assert isinstance(source, ScoresSource)
    content, groups = _measured(config)
    if as_json:
        rows = [asdict(one) for one in groups]
        shown = content | {"power": POWER, "groups": rows}
        sys.stdout.write(json.dumps(jsonable(shown), indent=1, ensure_ascii=False) + "\n")
        return
    unit = f" in {source.unit}" if source.unit else ""
    better = "lower" if source.is_lower_better else "higher"
    count = content["models"]
    lines = wrapped(
        f"{config.project}: {content['test']:,} test examples, {count} "
        f"model{'' if count == 1 else 's'} of the baseline; {source.score_name}{unit}, {better} is "
        "better",
        later="  ",
    )
    names = [variant.name for variant in config.resolved_variants[1:]]
    table = [
        (
            one.name,
            f"{one.n:,}",
            f"{one.mean:.4g}",
            *("none" if (w := one.worse[name]) is None else f"+{100 * w:.2g}%" for name in names),
            "",
        )
        for one in groups
    ]
    lines += ["", *table_lines(["group", "n", "mean", *names], table, right=1), ""]
    ratio = "compressed / dense" if source.is_lower_better else "dense / compressed"
    lines += wrapped(
        f"Per cent: the smallest rise of {ratio} of the mean that these very scores show with "
        f"{100 * POWER:.0f}% power, corrected for all {len(groups)} groups. A FAIL needs the "
        "margin of its rule on top.",
    )
    for note in content["notes"]:
        lines += wrapped(f"note    {printable(note)}", later=" " * 8)
    sys.stdout.write("\n".join(lines) + "\n")


def _measured(config: Config) -> tuple[dict[str, Any], list[ScoreForecast]]:
    from scotoma.comparison.means import score_table
    from scotoma.stages.external.predictions import supplied_scores

    survey = survey_examples(config)
    examples, scores = supplied_scores(config, survey.examples.split("test"))
    partition = examples.partition()
    tables = {
        variant.name: score_table(
            scores["dense"], scores[variant.name], examples.clusters, paired=variant.paired
        )
        for variant in config.resolved_variants[1:]
    }
    number = len(partition.keys)

    def forecast(key: str, name: str, mask: Flags) -> ScoreForecast:
        worse: dict[str, float | None] = {}
        n = 0
        for variant, table in tables.items():
            change = table.change(mask)
            n, v = change.n, change.log_variance
            known = v is not None and v.total > 0
            worse[variant] = (
                smallest_worsening(math.sqrt(v.total), v.df, number) if v and known else None
            )
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

"""What external models score: a number for each example, which is no class."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field

from scotoma.datasets.text_columns import absent_column
from scotoma.errors import DataError
from scotoma.printable import printable
from scotoma.sources.contract import FilePlace, Score
from scotoma.sources.predictions import PredictionsSource

if TYPE_CHECKING:
    from scotoma.config.model import Config
    from scotoma.predictions.external import ExternalPredictions


Measure = Literal["given", "absolute_error", "squared_error"]
MEASURES: tuple[str, ...] = Measure.__args__  # type: ignore[attr-defined]


class ScoresSource(PredictionsSource):
    """What external models score: a number for each example, which is no class."""

    kind: Literal["scores"]  # type: ignore[assignment]  # a table of predictions that are numbers
    may_have_several_labels: ClassVar[bool] = False
    implies: ClassVar[Mapping[str, Any]] = {"label": "none"}

    files: FilePlace = Field(
        min_length=1,
        description="CSV, Parquet or .npz by pattern, with a column `score`; for an error with a "
        "column `predicted`.",
    )
    measure: Measure = Field(
        "given",
        description="`given`: the files hold the score. `absolute_error`, `squared_error`: they "
        "hold predicted numbers, which are compared with label.column.",
    )
    lower_is_better: bool | None = Field(
        None, description="Of the score; needed where it is given, true of an error."
    )
    name: str = Field("", max_length=80, description="What readers call the score.")
    unit: str = Field(
        "", max_length=20, description="What it is measured in, such as minutes; empty for none."
    )

    def _misfits(self) -> Iterator[str]:
        yield from super()._misfits()
        for name in {"training", "captions", "classes"} & {*self.changed()}:
            yield (
                f"source.{name} is for source.kind predictions, and scores have no classes; "
                "leave it out"
            )
        if self.measure == "given" and self.lower_is_better is None:
            yield (
                "source.lower_is_better is missing; write true for a loss or an error, false for a "
                "score such as accuracy"
            )
        if self.measure != "given" and self.lower_is_better is False:
            yield (
                f"source.lower_is_better is false, and a smaller {self.score.name} is better; "
                "leave it out"
            )

    @property
    def score(self) -> Score:
        """What the numbers are.

        >>> ScoresSource(kind="scores", files="s.csv", examples="e.csv",
        ...              measure="absolute_error").score.name
        'absolute error'
        """
        given = self.measure == "given"
        return Score(
            name=self.name or ("score" if given else self.measure.replace("_", " ")),
            unit=self.unit,
            lower_is_better=self.lower_is_better is not False,
            given=given,
            column="score" if given else "predicted",
        )

    def judged(
        self,
        said: ExternalPredictions,
        name: str,
        config: Config,
        ids: Sequence[str],
        clusters: NDArray[np.int64] | None,
    ) -> ExternalPredictions:
        """Turn numbers into scores, and ask whether dense ones beat the same dealt to others.

        Raises:
            DataError: Errors are asked for, and an example has no true number.
        """
        from scotoma.answers.admission import chance_note, number_skill, unasked_chance

        notes, dense = said.admission, name == "dense"
        if self.measure == "given":
            more = (unasked_chance("examples have scores and no labels"),) if dense else ()
            return replace(said, admission=notes + more)
        numbers, truth = said.predicted, self._truth(config, ids)
        off = np.abs(numbers - truth[:, None])
        if dense:
            skill = number_skill(numbers, truth, clusters=clusters)
            note = chance_note(skill, f"off by {float(off.mean()):.3g} on average")
            notes += () if note is None else (note,)
        scores = off if self.measure == "absolute_error" else off**2
        return replace(said, predicted=scores, admission=notes)

    def _truth(self, config: Config, ids: Sequence[str]) -> NDArray[np.float64]:
        """The true number of each example."""
        column = config.label.column
        assert column is not None  # an error has a label
        table = self.examples_table({}, config.limits)
        if column not in table.columns:
            raise absent_column(column, "label", table.columns, self.examples)
        truth = table.select("example_id", number=pl.col(column).cast(pl.Float64, strict=False))
        wrong = ~truth["number"].is_finite().fill_null(False)
        if wrong.any():
            first = table.filter(wrong).row(0, named=True)
            raise DataError(
                printable(
                    f"label column {column!r} of {self.examples} must hold finite numbers, got "
                    f"{first[column]!r} in the row of {first['example_id']!r} "
                    f"({int(wrong.sum()):,} such rows); correct or remove them"
                )
            )
        wanted = pl.DataFrame({"example_id": list(ids)}, schema={"example_id": pl.String})
        joined = wanted.join(truth, on="example_id", how="left", maintain_order="left")
        return joined["number"].to_numpy().astype(np.float64)

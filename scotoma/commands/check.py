"""The check command, and `audit --dry-run`: what an audit will see, find and cost, not done yet."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from scotoma.commands.audit import configuration, own_code
from scotoma.commands.check_groups import POWER, GroupOutlook, group_outlooks
from scotoma.commands.check_text import check_text, steps_text
from scotoma.config import CelebaSource, Config, FolderSource, OnnxSource, PredictionsSource
from scotoma.config.newest import Newest
from scotoma.costs.images import ImageFacts, look_at_images
from scotoma.costs.steps import (
    Size,
    StepCost,
    VariantCost,
    audit_steps,
    total_time,
    variant_costs,
)
from scotoma.costs.trial import Span, Trial, try_network
from scotoma.datasets import Survey, survey_examples
from scotoma.datasets.join import Join
from scotoma.datasets.loading import image_place
from scotoma.datasets.memory import available_memory
from scotoma.errors import ConfigError, DataError
from scotoma.extras import needs
from scotoma.jsonable import jsonable
from scotoma.machine import cores
from scotoma.stages.newest import looked_at

__all__ = ["Checked", "run_check", "run_dry"]

TRIAL_S = 5.0
NOT_RUN = "none is needed: nothing is trained or run, predictions are audited"
LEFT_OUT = "left out (--no-trial), so that no time is given"


@dataclass(frozen=True)
class Checked:
    """What is known of an audit before it runs.

    Attributes:
        project: Name of the audit.
        origin: What its data are called.
        newest: What is newest as of now; None where the source does not ask.
        size: Examples, classes, groups, cores.
        units: Independent test examples: sources, where rows share them.
        members: Members a variant.
        independent: Whether a variant is compared with dense members that it does not derive from.
        derived: Whether a variant is made of the dense members.
        notes: On the data.
        join: Of a table and a folder; None where images travel with their rows.
        images: Their size.
        error: The error that the dense members are taken to make, a fraction.
        groups: Of the test split.
        variants: Their costs; empty where the data cannot be audited.
        steps: Of the pipeline, likewise.
        trial: What the costs rest on.
        free_memory: Bytes; None where the system does not tell.
    """

    project: str
    origin: str
    newest: str | None
    size: Size
    units: int
    members: int
    independent: bool
    derived: bool
    notes: tuple[str, ...]
    join: Join | None
    images: ImageFacts
    error: float
    groups: list[GroupOutlook]
    variants: list[VariantCost]
    steps: list[StepCost]
    trial: Trial
    free_memory: int | None

    @property
    def trained(self) -> bool:
        """Whether there are training examples; of predictions made elsewhere there are none."""
        return self.size.train > 0

    @property
    def total(self) -> Span | None:
        """Time of all steps."""
        return total_time(self.steps, self.size.cores)

    @property
    def disk_bytes(self) -> int | None:
        """What the run leaves; None where that of a step cannot be told."""
        sizes = [step.disk_bytes for step in self.steps]
        return None if None in sizes or not sizes else sum(size for size in sizes if size)

    @property
    def memory_bytes(self) -> int | None:
        """Of the step that holds most; None where that of a step cannot be told."""
        sizes = [step.memory_bytes for step in self.steps]
        return None if None in sizes or not sizes else max(size for size in sizes if size)

    @property
    def temporary_bytes(self) -> int | None:
        """Decoded images, of the step that has most of them."""
        return max((step.temporary_bytes or 0 for step in self.steps), default=0)

    def as_dict(self) -> dict[str, Any]:
        """What `--json` prints."""
        test = {"test": self.size.test, "units": self.units, "train": self.size.train}
        return {
            "version": 1,
            "project": self.project,
            "source": self.origin,
            "newest": self.newest,
            "examples": {**test, "classes": self.size.classes, "notes": list(self.notes)},
            "join": jsonable(self.join),
            "images": jsonable(self.images)
            | {"decoded_bytes": self.images.decoded_bytes(self.size.train + self.size.test)},
            "assumed": {"error": self.error, "power": POWER, "members": self.members},
            "groups": [
                jsonable(group) | {"estimable": group.estimable, "few": group.few}
                for group in self.groups
            ],
            "variants": jsonable(self.variants),
            "steps": jsonable(self.steps),
            "total": {
                "time": jsonable(self.total),
                "disk_bytes": self.disk_bytes,
                "memory_bytes": self.memory_bytes,
                "free_memory_bytes": self.free_memory,
                "temporary_bytes": self.temporary_bytes,
                "cores": self.size.cores,
            },
            "trial": jsonable(self.trial),
        }


def run_check(
    path: Path | None,
    *,
    data: str | None,
    error: float,
    trial: bool,
    as_json: bool,
    quiet: bool,
    allow_code: bool = False,
) -> None:
    """Print what an audit will see, what it can find and what it will cost.

    Args:
        path: Configuration; None for the embedded default.
        data: Overrides `source.data`.
        error: Share of examples on which dense members are taken to err, a fraction in (0, 1).
        trial: Whether to try a few steps of the network.
        as_json: Print JSON instead of text.
        quiet: Show no progress.
        allow_code: Whether code that the configuration names may run.

    Raises:
        ConfigError: The configuration or the error cannot be.
        DataError: The data cannot be audited; what could be told of them is printed all the same.
    """
    if not 0 < error < 1:
        raise ConfigError(
            f"--error must be a fraction between 0 and 1, got {error:g}: write 0.05 for 5%"
        )
    asked = configuration(path, deterministic=False, seed=None, data=data)
    seconds = TRIAL_S if trial else 0.0
    with looked_at(asked) as (config, newest), own_code(config, path, allowed=allow_code):
        found, refused = _checked(config, error, seconds, newest, quiet=quiet)
    _print(found, check_text(found), as_json=as_json)
    if refused:
        raise DataError(refused)


def run_dry(
    path: Path | None,
    *,
    deterministic: bool,
    seed: int | None,
    data: str | None,
    as_json: bool,
    quiet: bool,
    models: int | None = None,
    allow_code: bool = False,
) -> None:
    """Print the steps of an audit with what each will cost, and do none.

    Args:
        path: Configuration; None for the embedded default.
        deterministic: Overrides `deterministic` with True.
        seed: Overrides `population.seed`.
        data: Overrides `source.data`.
        as_json: Print JSON instead of text.
        quiet: Show no progress.
        models: Overrides `population.models`.
        allow_code: Whether code that the configuration names may run.

    Raises:
        ConfigError: The configuration cannot be.
        DataError: The data cannot be audited.
    """
    asked = configuration(path, deterministic=deterministic, seed=seed, data=data, models=models)
    if isinstance(asked.source, PredictionsSource):
        raise ConfigError(
            "--dry-run tells what training will cost, and source.kind predictions trains nothing; "
            "run scotoma check"
        )
    with looked_at(asked) as (config, newest), own_code(config, path, allowed=allow_code):
        found, refused = _checked(config, None, TRIAL_S, newest, quiet=quiet)
    if refused:
        raise DataError(refused)
    _print(found, steps_text(found), as_json=as_json)


def _print(found: Checked, text: str, *, as_json: bool) -> None:
    shown = json.dumps(found.as_dict(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    sys.stdout.write(shown if as_json else text)


def _checked(
    config: Config, error: float | None, seconds: float, newest: Newest | None, *, quiet: bool
) -> tuple[Checked, str]:
    """All that can be told, and the sentence on data that cannot be audited."""
    survey = survey_examples(config)
    refused = _complaint(config, survey)
    images = look_at_images(config, survey)
    models = _models(config)
    size = replace(_size(survey), models_bytes={n: sum(f.values()) for n, f in models.items()})
    compressed = config.resolved_variants[1:]
    groups: list[GroupOutlook] = []
    steps: list[StepCost] = []
    variants: list[VariantCost] = []
    with _bars(quiet=quiet) as bars:
        if error is not None:
            bar = bars.add_task("what groups can show", total=size.groups)
            groups = group_outlooks(
                config,
                survey.examples,
                error,
                tick=lambda done, of: bars.update(bar, completed=done, total=of),
            )
            bars.update(bar, completed=size.groups)
        trial = Trial(reason="left out, since the data cannot be audited")
        if isinstance(config.source, PredictionsSource):
            trial = Trial(reason=NOT_RUN)
        elif not refused:
            trial = _tried(config, size, images, models, seconds, bars)
            steps = audit_steps(config, size, images, trial)
            variants = variant_costs(config, size, images, trial)
    clusters = survey.examples.split("test").clusters
    return Checked(
        project=config.project,
        origin=survey.origin,
        newest=None if newest is None else str(newest),
        size=size,
        units=size.test if clusters is None else int(clusters.max()) + 1,
        members=config.population.models,
        independent=any(not variant.paired for variant in compressed),
        derived=any(variant.paired for variant in compressed),
        notes=survey.examples.notes,
        join=survey.join,
        images=images,
        error=error or 0.0,
        groups=groups,
        variants=variants,
        steps=steps,
        trial=trial,
        free_memory=available_memory(),
    ), refused


def _models(config: Config) -> dict[str, dict[str, int]]:
    """Of models made elsewhere the files of every variant, in order, and their bytes."""
    if not isinstance(config.source, OnnxSource):
        return {}
    needs("onnx", "train", "source.kind onnx")
    from scotoma.stages.taking_in import find_models

    return {
        name: {str(path): path.stat().st_size for path in paths}
        for name, paths in find_models(config).items()
    }


def _tried(
    config: Config,
    size: Size,
    images: ImageFacts,
    models: dict[str, dict[str, int]],
    seconds: float,
    bars: Progress,
) -> Trial:
    bar = bars.add_task("try a few steps", total=2 * seconds if seconds else None)
    trial = try_network(
        config,
        size.classes,
        images.shape,
        size.train,
        files={name: next(iter(files)) for name, files in models.items()},
        seconds=seconds,
        tick=lambda gone: bars.update(bar, completed=min(gone, 2 * seconds)),
    )
    if trial.image is None and not trial.reason:
        return replace(trial, reason=images.reason if seconds else LEFT_OUT)
    return trial


def _complaint(config: Config, survey: Survey) -> str:
    if survey.join is None:
        return ""
    assert isinstance(config.source, FolderSource | OnnxSource | CelebaSource)
    return survey.join.complaint(survey.origin, image_place(config.source))


def _size(survey: Survey) -> Size:
    train, test = survey.examples.split("train"), survey.examples.split("test")
    return Size(
        train=train.table.height,
        test=test.table.height,
        classes=len(survey.examples.classes),
        groups=len(test.partition().keys),
        id_bytes=int(test.table["example_id"].str.len_bytes().sum()),
        cores=cores(),
    )


@contextmanager
def _bars(*, quiet: bool) -> Iterator[Progress]:
    """Bars on stderr while something takes its time; none of them stays."""
    console = Console(stderr=True, quiet=quiet)
    columns = TextColumn("{task.description:<24}"), BarColumn(), TimeElapsedColumn()
    with Progress(
        *columns, console=console, disable=not console.is_terminal, transient=True
    ) as bars:
        yield bars

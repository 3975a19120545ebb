"""What will an audit see, what can it find and what will it cost, before it runs?"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from scotoma import storage
from scotoma.commands.check.audit_forecast import AuditForecast
from scotoma.commands.check.forecast_groups import GroupForecast, forecast_groups
from scotoma.commands.check.forecast_scores import forecast_of_scores, read_scores
from scotoma.commands.check.forecast_text import forecast_text, steps_text
from scotoma.commands.shared.configuration import configuration, own_code
from scotoma.config import Config
from scotoma.config.newest import Newest
from scotoma.costs.estimate import AuditSize, StepCost, step_costs
from scotoma.costs.images import ImageFacts, look_at_images
from scotoma.costs.measure import NetworkCost, measure_models, measure_training
from scotoma.costs.measuring import AuditShape, measuring_cost, relative_speed
from scotoma.datasets import AuditedExamples
from scotoma.datasets.memory import available_memory
from scotoma.errors import ConfigError, DataError
from scotoma.extras import needs
from scotoma.mitigation.groups import network_outputs
from scotoma.run.copies import folder_here
from scotoma.sources.reading import Survey, survey_examples
from scotoma.steps.inputs.newest import looked_at
from scotoma.steps.robustness.forecast import forecast_robustness
from scotoma.steps.table import skipped_steps

__all__ = ["print_dry_run", "print_forecast", "require_sound"]

ASSUMED = 0.05  # error of the dense members, where nothing is known of them
TRIAL_S = 5.0
NOT_RUN = "none: nothing is trained or run, predictions are audited"
LEFT_OUT = "left out (--no-trial); times are not known"


def print_forecast(
    path: Path | None,
    *,
    data: str | None,
    assumed_error: float | None,
    trial: bool,
    as_json: bool,
    quiet: bool,
    allow_code: bool = False,
) -> None:
    """Print what an audit will see, what it can find and what it will cost.

    Args:
        path: Configuration; None for the embedded default.
        data: Overrides `source.data`.
        assumed_error: Error that the dense members are assumed to make, a fraction in (0, 1); None
            for that of the predictions where these are audited, else 0.05.
        trial: Whether to time a few steps of the network.
        as_json: Print JSON instead of text.
        quiet: Show no progress.
        allow_code: Whether code that the configuration names may run.

    Raises:
        ConfigError: The configuration or the error is refused.
        DataError: The data cannot be audited; what is known of them is printed all the same.
    """
    if assumed_error is not None and not 0 < assumed_error < 1:
        raise ConfigError(
            "--assumed-error must be a fraction between 0 and 1, got "
            f"{assumed_error:g}: write 0.05 for 5%"
        )
    wanted = configuration(path, deterministic=False, seed=None, data=data)
    seconds = TRIAL_S if trial else 0.0
    with looked_at(wanted) as (config, newest), own_code(config, path, allowed=allow_code):
        if config.source.score is not None:
            forecast_of_scores(config, assumed_error, as_json=as_json)
            return
        if assumed_error is None and not config.source.has_answers:
            assumed_error = ASSUMED
        forecast, complaint = _forecast(
            config, assumed_error, seconds, newest, groups=True, quiet=quiet
        )
    _print(forecast, forecast_text(forecast), as_json=as_json)
    if complaint:
        raise DataError(complaint)


def require_sound(config: Config, *, network: bool = True) -> None:
    """Read all that `scotoma check` reads, and print nothing.

    Args:
        config: The configuration, whose own code is not run.
        network: Whether the network, or the first models, are tried too.

    Raises:
        ScotomaError: What `scotoma check` would say.
    """
    with looked_at(config) as (resolved, newest):
        if resolved.source.score is not None:
            read_scores(resolved)
            return
        known = None if resolved.source.has_answers else ASSUMED
        complaint = _forecast(
            resolved, known, 0.0, newest, groups=False, quiet=True, try_network=network
        )[1]
    if complaint:
        raise DataError(complaint)


def print_dry_run(
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
    """Print the steps of an audit with the cost of each, and run none.

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
        ConfigError: The configuration is refused.
        DataError: The data cannot be audited.
    """
    wanted = configuration(path, deterministic=deterministic, seed=seed, data=data, models=models)
    if wanted.source.has_answers:
        raise ConfigError(
            f"--dry-run estimates training, and source.kind {wanted.source.kind} trains nothing; "
            "run scotoma check"
        )
    with looked_at(wanted) as (config, newest), own_code(config, path, allowed=allow_code):
        forecast, complaint = _forecast(config, None, TRIAL_S, newest, groups=False, quiet=quiet)
    if complaint:
        raise DataError(complaint)
    _print(forecast, steps_text(forecast), as_json=as_json)


def _print(forecast: AuditForecast, text: str, *, as_json: bool) -> None:
    shown = json.dumps(forecast.as_dict(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    sys.stdout.write(shown if as_json else text)


def _forecast(
    config: Config,
    assumed_error: float | None,
    seconds: float,
    newest: Newest | None,
    *,
    groups: bool,
    quiet: bool,
    try_network: bool = True,
) -> tuple[AuditForecast, str]:
    """Everything that is known, and the sentence on data that cannot be audited."""
    survey = survey_examples(config)
    complaint = _complaint(config, survey)
    images = look_at_images(config, survey)
    size, files = _size(config, survey), _model_files(config)
    size = replace(size, models_bytes=_bytes_of(config, files))
    compressed = config.resolved_variants[1:]
    forecasts: list[GroupForecast] = []
    error: float | NDArray[np.float64] | None = assumed_error
    steps: dict[str, StepCost] = {}
    with _bars(quiet=quiet) as bars:
        if assumed_error is None and config.source.has_answers:
            from scotoma.sources.answers import baseline_errors

            bars.add_task("read predictions", total=None)
            error = baseline_errors(config, survey.examples.split("test"))
        if groups:
            bar = bars.add_task("what groups can show", total=None)
            forecasts = forecast_groups(
                config,
                survey.examples,
                ASSUMED if error is None else error,
                tick=lambda done, total: bars.update(bar, completed=done, total=total),
            )
        network = NetworkCost(reason="left out: the data cannot be audited")
        if config.source.has_answers:
            network = NetworkCost(reason=NOT_RUN)
        elif not complaint and try_network:
            bars.add_task("time a few steps", total=None)
            network = _network_cost(config, size, images, files, seconds)
            steps = step_costs(config, size, images.encoded_bytes, network)
        wrong = None if error is None else float(np.mean(error))
        robust = forecast_robustness(config, survey.examples, wrong, images, network)
        if robust is not None and steps:
            steps["robustness"] = robust.cost
    clusters = survey.examples.split("test").clusters
    return AuditForecast(
        project=config.project,
        origin=survey.origin,
        newest=None if newest is None else str(newest),
        size=size,
        clusters=size.test if clusters is None else int(clusters.max()) + 1,
        labelled=survey.examples.labelled,
        members=config.population.models,
        independent=any(not variant.paired for variant in compressed),
        derived=any(variant.paired for variant in compressed),
        notes=(*survey.examples.notes, *(n.sentence for n in survey.examples.admission)),
        join=survey.join,
        images=images,
        assumed_error=assumed_error,
        error=float(np.mean(error)) if error is not None else 0.0,
        groups=forecasts,
        steps=steps,
        skipped=skipped_steps(config) | ({"log"} if config.tracking.uri == "off" else set()),
        network=network,
        measuring=measuring_cost(_shape(config, survey.examples.split("test")), relative_speed()),
        free_memory=available_memory(),
        robustness=robust,
    ), complaint


def _shape(config: Config, test: AuditedExamples) -> AuditShape:
    from scotoma.slices.features import conditions_together

    values = [test.table[attribute].n_unique() for attribute in test.attributes]
    asked = config.slices
    features = len(asked.features) or len(values) + 1  # and the class
    return AuditShape(
        examples=test.table.height,
        models=config.population.models,
        variants=len(config.resolved_variants) - 1,
        classes=len(test.classes),
        groups=len(test.partition().keys),
        pairs=sum(1 if number == 2 else number for number in values),
        slice_sets=conditions_together(features, test.table.height, asked.max_cross)[1],
        by_class=config.label.positive is None,
        attributes=len(test.attributes),
        labelled=test.labelled,
    )


def _model_files(config: Config) -> dict[str, list[str]]:
    """Name the files of the external models of every variant, in order."""
    if not config.source.has_models:
        return {}
    needs("onnx", "train", "source.kind onnx")
    return config.source.models_found(config)


def _bytes_of(config: Config, files: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Add the sizes of the external models of every variant."""
    totals = {}
    for variant, names in files.items():
        sizes = storage.list_files(storage.join(config.source.places["models"], variant))
        totals[variant] = sum(sizes[name] for name in names)
    return totals


def _network_cost(
    config: Config,
    size: AuditSize,
    images: ImageFacts,
    files: Mapping[str, Sequence[str]],
    seconds: float,
) -> NetworkCost:
    if files:
        needs("onnxruntime", "train", "the trial of models")
        from scotoma.steps.external.network import network_of

        first_files = config.source.files_of_models(config, lambda variant: range(1))
        folder = folder_here(first_files["models"])
        first = {variant: folder / variant / names[0] for variant, names in files.items()}
        network = network_of(config, size.outputs)
        cost = measure_models(network, images.shape, first, seconds=seconds)
    else:
        cost = measure_training(
            config, size.outputs, size.train_images, images.shape, seconds=seconds
        )
    if cost.reason or cost.image_s:
        return cost
    return replace(cost, reason=images.reason if seconds else LEFT_OUT)


def _complaint(config: Config, survey: Survey) -> str:
    folder = config.source.image_folder()
    if survey.join is None or folder is None:
        return ""
    return survey.join.complaint(survey.origin, folder)


def _size(config: Config, survey: Survey) -> AuditSize:
    train, test = survey.examples.split("train"), survey.examples.split("test")
    return AuditSize(
        train=train.table.height,
        test=test.table.height,
        classes=len(survey.examples.classes),
        id_bytes=int(test.table["example_id"].str.len_bytes().sum()),
        outputs=network_outputs(config, survey.examples),
        rows_an_image=survey.examples.rows_an_image,
    )


@contextmanager
def _bars(*, quiet: bool) -> Iterator[Progress]:
    """Show bars on stderr while something takes its time; none of them stays."""
    console = Console(stderr=True, quiet=quiet)
    columns = TextColumn("{task.description:<24}"), BarColumn(), TimeElapsedColumn()
    with Progress(
        *columns, console=console, disable=not console.is_terminal, transient=True
    ) as bars:
        yield bars

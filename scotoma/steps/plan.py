"""What will an audit see, find and cost? Data are read, a network is tried, nothing is left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from scotoma import storage
from scotoma.commands.asking import Answer
from scotoma.config import Config
from scotoma.config.newest import Newest
from scotoma.costs.estimate import AuditShape, AuditSize, measuring_cost, relative_speed, step_costs
from scotoma.costs.measure import (
    ImageFacts,
    NetworkCost,
    look_at_images,
    measure_models,
    measure_training,
)
from scotoma.costs.plan import Plan, plan_document
from scotoma.costs.scores import plan_of_scores
from scotoma.datasets import AuditedExamples
from scotoma.datasets.image_decoding import available_memory
from scotoma.errors import ConfigError, DataError
from scotoma.extras import needs
from scotoma.mitigation.groups import network_outputs
from scotoma.power.groups import forecast_groups
from scotoma.processes.progress import bars
from scotoma.run.mirror import folder_here
from scotoma.sources.reading import Survey, survey_examples
from scotoma.steps.inputs import looked_at
from scotoma.steps.table import skipped_steps

ASSUMED = 0.05  # error of the dense members, where nothing is known of them
TRIAL_S = 5.0
NOT_RUN = "none: nothing is trained or run, predictions are audited"
LEFT_OUT = "left out (--no-trial); times are not known"


def plan_audit(
    config: Config, assumed: float | None = None, *, trial: bool = True, quiet: bool = True
) -> Answer:
    """Foresee an audit.

    Args:
        config: The configuration.
        assumed: Error that the dense members are assumed to make, a fraction in (0, 1); None for
            that of the predictions where these are audited, else 0.05.
        trial: Whether to time a few steps of the network.
        quiet: Show no progress.

    Returns:
        What the command answers; a refusal where the data cannot be audited.

    Raises:
        ConfigError: The configuration or the error is refused.
        DataError: Nothing can be told of the data.
    """
    with looked_at(config) as (complete, newest):
        if complete.source.score is not None:
            if assumed is not None:
                raise ConfigError(
                    "--assumed-error is for classes, and source.kind is scores; leave it out"
                )
            return Answer(*plan_of_scores(complete))
        seconds = TRIAL_S if trial else 0.0
        plan, complaint = _plan(complete, newest, assumed, seconds, quiet=quiet)
    refusal = DataError(complaint) if complaint else None
    return Answer(plan_document(plan), plan.as_dict(), refusal=refusal)


def require_sound(config: Config, *, network: bool = True) -> None:
    """Read all that a plan rests on.

    Args:
        config: The configuration, whose own code is not run.
        network: Whether the network, or the first models, are tried too.

    Raises:
        ScotomaError: What `scotoma audit --plan` would say.
    """
    with looked_at(config) as (complete, newest):
        if complete.source.score is not None:
            plan_of_scores(complete)
            return
        _, complaint = _plan(complete, newest, None, 0.0, whole=False, network=network)
    if complaint:
        raise DataError(complaint)


def _plan(
    config: Config, newest: Newest | None, assumed: float | None, seconds: float, *,
    whole: bool = True, network: bool = True, quiet: bool = True,
) -> tuple[Plan, str]:  # fmt: skip
    """Everything that is known, and the sentence on data that cannot be audited."""
    survey, has_answers = survey_examples(config), config.source.has_answers
    folder, complaint = config.source.image_folder(), ""
    if survey.join is not None and folder is not None:
        complaint = survey.join.complaint(survey.origin, folder)
    images, files, test = look_at_images(config, survey), {}, survey.examples.split("test")
    if config.source.has_models:
        needs("onnx", "train", "source.kind onnx")
        files = config.source.models_found(config)
    size = _size(config, survey, files)
    if assumed is None and not has_answers:
        assumed = ASSUMED
    error: float | NDArray[np.float64] | None = assumed
    cost, steps, groups = NetworkCost(reason="left out: the data cannot be audited"), {}, []
    with bars(quiet=quiet) as begin:
        if assumed is None:
            begin("read predictions")
            supplied = config.source.answers(config)
            error = None if supplied is None else supplied.baseline_errors(test)
        if whole:
            groups = forecast_groups(
                config, survey.examples, ASSUMED if error is None else error,
                tick=begin("what groups can show"),
            )  # fmt: skip
        if has_answers:
            cost = NetworkCost(reason=NOT_RUN)
        elif not complaint and network:
            begin("time a few steps")
            cost = _network_cost(config, size, images, files, seconds)
            steps = step_costs(config, size, images.encoded_bytes, cost)
        wrong = None if error is None else float(np.mean(error))
        robust = None
        if config.robustness is not None:
            from scotoma.costs.robustness import forecast_robustness  # SciPy comes with it

            robust = forecast_robustness(config, survey.examples, wrong, images, cost)
            if robust is not None and steps:
                steps["robustness"] = robust.cost
    return Plan(
        config, survey, None if newest is None else str(newest), size, images, assumed,
        wrong or 0.0, groups, steps,
        skipped_steps(config) | ({"log"} if config.tracking.uri == "off" else set()), cost,
        measuring_cost(_shape(config, test), relative_speed()), available_memory(), robust,
    ), complaint  # fmt: skip


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


def _network_cost(
    config: Config,
    size: AuditSize,
    images: ImageFacts,
    files: Mapping[str, Sequence[str]],
    seconds: float,
) -> NetworkCost:
    if files:
        needs("onnxruntime", "train", "the trial of models")
        from scotoma.inference.members import network_of

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


def _size(config: Config, survey: Survey, files: Mapping[str, Sequence[str]]) -> AuditSize:
    train, test = survey.examples.split("train"), survey.examples.split("test")
    totals = {}
    for variant, names in files.items():
        sizes = storage.list_files(storage.join(config.source.places["models"], variant))
        totals[variant] = sum(sizes[name] for name in names)
    return AuditSize(
        train=train.table.height,
        test=test.table.height,
        classes=len(survey.examples.classes),
        id_bytes=int(test.table["example_id"].str.len_bytes().sum()),
        models_bytes=totals,
        outputs=network_outputs(config, survey.examples),
        rows_an_image=survey.examples.rows_an_image,
    )

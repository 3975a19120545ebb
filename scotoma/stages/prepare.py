"""Read and check the source, and write its examples."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from scotoma import progress
from scotoma.config import Config, OnnxSource, PredictionsSource, ScoresSource
from scotoma.datasets.parts import PartDigests, parts_file
from scotoma.run import Run
from scotoma.run.sources import SOURCES, confirmed
from scotoma.stages.inputs.changed import Changed
from scotoma.stages.judging.terms import Judging
from scotoma.storage.files import written
from scotoma.training.mitigated import run_groups

__all__ = ["prepare"]


def prepare(run: Run) -> list[Path]:
    """Read and check the source, write the examples of both splits, bring the previous audit.

    External predictions are imported whole.
    """
    predicted = isinstance(run.config.source, PredictionsSource)
    made = _predicted(run) if predicted else [*_models(run), *_decoded(run)]
    leaves = [*made, run.path(SOURCES)]
    _refuse_unfit_rules(run)
    run_groups(run)  # what a technique cannot work with is refused now
    if run.config.robustness is not None:
        from scotoma.stages.robustness.plan import plan_of

        plan_of(run)  # what cannot be made is refused before hours of training, not after
    run.fetch(run.previous)
    if run.config.retraining is None and not run.previous.exists():
        return leaves
    from scotoma.stages.judging.previous import fetch_previous  # SciPy comes with it

    return [*leaves, *fetch_previous(run)]


def _refuse_unfit_rules(run: Run) -> None:
    """Refuse rules for groups or labels that there are not before hours of work, not after."""
    rules = Judging.of(run).rules
    if rules is not None:
        from scotoma.config.gate_groups import (
            refuse_rules_about_labels,
            refuse_rules_of_other_kind,
            refuse_unknown_groups,
        )
        from scotoma.datasets import AuditedExamples

        examples = AuditedExamples.read(run.examples, images=False).split("test")
        refuse_unknown_groups(rules, examples.partition().keys)
        scored = isinstance(run.config.source, ScoresSource)
        refuse_rules_of_other_kind(rules, scored=scored)
        if not examples.labelled and not scored:
            refuse_rules_about_labels(rules)


def _models(run: Run) -> list[Path]:
    if not isinstance(run.config.source, OnnxSource):
        return []
    from scotoma.stages.external.registered import fetch_models

    return fetch_models(run)


def _predicted(run: Run) -> list[Path]:
    from scotoma.stages.external.predictions import (
        import_predictions,
        prepare_predicted,
        reruns_an_example,
        supplied_reruns,
    )

    changed = Changed.since_last_look(run)
    supplied = supplied_reruns(run.config)
    rows = reruns_an_example(run.config, supplied)
    more = f"/{rows} reruns" if rows > 1 else ""
    outputs = _examples(run, changed, lambda: prepare_predicted(run, supplied), more)
    return [*outputs, *import_predictions(run, supplied)]


def _decoded(run: Run) -> list[Path]:
    return _examples(run, Changed.since_last_look(run), lambda: _decode(run))


def _examples(run: Run, changed: Changed, read: Callable[[], None], more: str = "") -> list[Path]:
    """The examples of both splits.

    Args:
        run: The run.
        changed: What changed in the sources since the last look.
        read: Reads and writes them.
        more: What else than the sources they are made from.
    """
    outputs, sources = [run.examples, parts_file(run)], changed.sources
    made_with = sources.key(*(key for key in sources.files if key != "models")) + more
    source = _here(run).source
    if isinstance(source, OnnxSource):
        from scotoma.readers.hugging_face import digest_beside

        made_with += digest_beside(source.models)
    with run.step("prepare", outputs, made_with=made_with) as due:
        if due:
            read()
            confirmed(changed.files, sources)
    changed.leave()
    return outputs


def _here(run: Run) -> Config:
    """The run's configuration with its models, if they are external, in a folder."""
    if not isinstance(run.config.source, OnnxSource):
        return run.config
    from scotoma.stages.external.registered import models_here

    return models_here(run)


def _decode(run: Run) -> None:
    from scotoma.datasets import checked_parts, open_examples
    from scotoma.datasets.orientation import orientation_notes

    examples, parts = open_examples(_here(run))
    progress.start("decode images", 1)
    digests, oriented = PartDigests(examples), list[str]()
    with written(run.examples) as temporary:
        # A broken image is refused before anything is trained.
        checked = checked_parts(
            parts, examples.size, limits=run.config.limits, rows_an_image=examples.rows_an_image,
            oriented=oriented,
        )  # fmt: skip
        examples.write_parts(
            temporary, digests.passing(checked), lambda: orientation_notes(examples, oriented)
        )
    digests.write(run)
    progress.advance("decode images")

"""Which pictures of a run are corrupted, how, and which members see them?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scotoma.datasets import AuditedExamples
from scotoma.datasets.stratified import stratified
from scotoma.robustness.plan import RobustnessPlan, refuse_impossible, suite_of
from scotoma.run import Run
from scotoma.steps.robustness.other_sets import set_pictures

__all__ = ["plan_of"]


def plan_of(run: Run) -> tuple[RobustnessPlan, AuditedExamples]:
    """Choose conditions, examples and members.

    Returns:
        The plan, and all test examples, without images.

    Raises:
        ConfigError: As `suite_of`.
        DataError: As `find_conditions` and `set_pictures`.
    """
    from scotoma.datasets.image_decoding import image_shape

    config, asked = run.config, run.config.robustness
    assert asked is not None
    run.fetch(run.examples)
    examples = AuditedExamples.read(run.examples, images=False, split="test")
    members = {
        variant.name: min(config.models_of(variant.name), asked.asked_members)
        for variant in config.resolved_variants
    }
    refuse_impossible(asked, members)
    paired = frozenset(variant.name for variant in config.resolved_variants if variant.paired)
    plan = RobustnessPlan(asked, None, (), (), 1, np.zeros(0, np.intp), members, paired=paired)
    if asked.files is not None:
        from scotoma.steps.robustness.external import find_conditions, imported_models

        there = find_conditions(config, imported_models(run, members), examples)
        plan = replace(plan, kinds=there.kinds, severities=there.severities, rows=there.rows)
        return plan, examples
    for one in asked.sets:
        set_pictures(one, examples.classes)
    if asked.profile is not None or asked.confidence:  # clean pictures, beside those of the sets
        rows = stratified(examples, asked.asked_examples, config.population.seed)
        plan = replace(plan, rows=rows)
    if asked.profile is not None:
        first = AuditedExamples.read(run.examples, only=examples.ids[:1])
        shape = image_shape(first.table["example_id"], first.table["image"], first.size)
        chosen, kinds = suite_of(asked, min(shape[2:]))
        draws, severities = asked.corruption_seeds, asked.asked_severities
        plan = replace(plan, profile=chosen, kinds=kinds, severities=severities, draws=draws)
    return plan, examples

"""What an audit can find in each group, as `scotoma audit --plan` prints it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scotoma.config import default_config
from scotoma.power.forecast import forecast
from scotoma.power.groups import forecast_groups
from scotoma.power.model import Design
from scotoma.sources.reading import survey_examples


def test_groups_detect_what_the_power_of_their_clusters_says() -> None:
    config = default_config()
    examples = survey_examples(config).examples
    groups = {group.key: group for group in forecast_groups(config, examples, 0.03)}
    everyone, minority = groups["all"], groups["exposure=minority"]
    assert (everyone.n, everyone.clusters) == (1798, 899)
    assert everyone.errors == pytest.approx(1798 * 0.03)
    design = Design(group_n=899, rate=0.03, members=10)
    independent, paired = forecast(design), forecast(replace(design, paired=True))
    assert (everyone.independent, everyone.paired) == (independent.value, paired.value)
    assert everyone.effective_events == design.effective_events()[0]
    assert minority.train == int((examples.split("train").table["exposure"] == "minority").sum())

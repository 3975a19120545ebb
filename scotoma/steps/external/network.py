"""What are the members of an audit run as?"""

from __future__ import annotations

from dataclasses import replace

from scotoma.config import Config
from scotoma.datasets import AuditedExamples
from scotoma.inference import Network

__all__ = ["labels_network", "network_of"]


def labels_network(config: Config, examples: AuditedExamples) -> Network:
    """What members are run as where labels are asked of them, one an image or several."""
    several = tuple(config.label.several.values())
    network = network_of(config, len(examples.several) or len(examples.classes))
    return replace(network, thresholds=several)


def network_of(config: Config, classes: int) -> Network:
    """What the members of an audit are run as."""
    return config.source.run_as(config, classes)

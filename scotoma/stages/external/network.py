"""What are the members of an audit run as?"""

from __future__ import annotations

from scotoma.config import Config, OnnxSource
from scotoma.inference import Network, Preprocessing

__all__ = ["network_of"]


def network_of(config: Config, classes: int) -> Network:
    """What the members of an audit are run as."""
    if not isinstance(config.source, OnnxSource):
        return Network(config.source.model, classes, deterministic=config.deterministic)
    asked = config.source.preprocessing
    mean, std = ((a, b, c) for a, b, c in (asked.mean, asked.std))
    ready = Preprocessing(asked.scale, mean, std, asked.layout)
    return Network("onnx", classes, ready, deterministic=config.deterministic, limits=config.limits)

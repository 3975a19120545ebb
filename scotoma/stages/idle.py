"""Which steps of the pipeline an audit has no use for."""

from __future__ import annotations

from scotoma.config import Config, PredictionsSource

__all__ = ["idle_steps"]


def idle_steps(config: Config) -> frozenset[str]:
    """Steps that would only start and end: nothing to prune, to quantize, or to predict.

    Args:
        config: Its variants and its source decide.

    >>> from scotoma.config import default_config
    >>> config = default_config()
    >>> sorted(idle_steps(config))
    []
    >>> sorted(idle_steps(config.model_copy(update={"variants": ["dense"]})))
    ['prune', 'quantize']
    """
    made_here = [v for v in config.resolved_variants if not v.made_elsewhere]
    busy = {
        "prune": any(variant.kind == "prune" for variant in made_here),
        "quantize": any(variant.derived_from for variant in made_here),
        "predict": not isinstance(config.source, PredictionsSource),  # taken in where others train
    }
    return frozenset(step for step, needed in busy.items() if not needed)

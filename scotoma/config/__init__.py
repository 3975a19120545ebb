"""What is to be audited? One frozen value, checked when made; every fault names its line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scotoma.config.kubeflow import Kubeflow
    from scotoma.config.mitigation import Mitigation
    from scotoma.config.model import Config
    from scotoma.config.reading import DEFAULT_CONFIG, default_config, load_config, parse_config
    from scotoma.config.recipe import Recipe
    from scotoma.config.robustness import Robustness
    from scotoma.config.sections import Retraining
    from scotoma.config.variants import Variant

__all__ = [
    "DEFAULT_CONFIG",
    "Config",
    "Kubeflow",
    "Mitigation",
    "Recipe",
    "Retraining",
    "Robustness",
    "Variant",
    "default_config",
    "load_config",
    "parse_config",
]


def __getattr__(name: str) -> Any:
    """Build what is asked for on first use: who needs only limits waits for no model of a file."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from scotoma.config import model, reading, recipe

    return next(vars(place)[name] for place in (model, reading, recipe) if name in vars(place))

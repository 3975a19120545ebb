"""What is to be audited: one frozen value, checked when made, every fault named with its line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scotoma.config.kubeflow import Kubeflow
    from scotoma.config.model import (
        CelebaSource,
        Cifar10Source,
        Config,
        DetectionsSource,
        DigitsSource,
        FolderSource,
        Mitigation,
        OnnxSource,
        ParquetSource,
        PredictionsSource,
        Recipe,
        Retraining,
        Robustness,
        ScoresSource,
        Split,
        Variant,
    )
    from scotoma.config.reading import DEFAULT_CONFIG, default_config, load_config, parse_config

__all__ = [
    "DEFAULT_CONFIG",
    "CelebaSource",
    "Cifar10Source",
    "Config",
    "DetectionsSource",
    "DigitsSource",
    "FolderSource",
    "Kubeflow",
    "Mitigation",
    "OnnxSource",
    "ParquetSource",
    "PredictionsSource",
    "Recipe",
    "Retraining",
    "Robustness",
    "ScoresSource",
    "Split",
    "Variant",
    "default_config",
    "load_config",
    "parse_config",
]


def __getattr__(name: str) -> Any:
    """Build what is asked for on first use: who needs only limits waits for no model of a file."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from scotoma.config import kubeflow, model, reading

    return next(vars(place)[name] for place in (kubeflow, model, reading) if name in vars(place))

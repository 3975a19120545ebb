"""What is to be audited: one frozen value, checked when made, every fault named with its line."""

from __future__ import annotations

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

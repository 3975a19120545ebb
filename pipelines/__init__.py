"""How does an audit run on Kubeflow?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scotoma.extras import needs

if TYPE_CHECKING:
    from scotoma.pipelines.audit import build_pipeline, build_scheduled, compile_pipeline

__all__ = ["build_pipeline", "build_scheduled", "compile_pipeline"]


def __getattr__(name: str) -> Any:
    """Import kfp only when a pipeline is built."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(needs("scotoma.pipelines.audit", "kubeflow", "a pipeline"), name)

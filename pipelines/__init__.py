"""The DAGs."""

from __future__ import annotations

from scotoma.pipelines.audit import build_pipeline, build_scheduled, compile_pipeline

__all__ = ["build_pipeline", "build_scheduled", "compile_pipeline"]

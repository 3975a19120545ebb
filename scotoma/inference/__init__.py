"""What do members predict? By torch for trained variants, by ONNX Runtime for graphs."""

from __future__ import annotations

from scotoma.inference.engines import Network, open_engine, providers, scores_onnx, session
from scotoma.inference.population import MemberAnswers, images_at_once, predict_members
from scotoma.inference.preprocessing import OURS, PixelArray, Preprocessing

__all__ = [
    "OURS",
    "MemberAnswers",
    "Network",
    "PixelArray",
    "Preprocessing",
    "images_at_once",
    "open_engine",
    "predict_members",
    "providers",
    "scores_onnx",
    "session",
]

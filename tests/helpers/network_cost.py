"""A network's cost as it could have been measured."""

from __future__ import annotations

from scotoma.costs.estimate import AuditSize
from scotoma.costs.measure import NetworkCost

SIZE = AuditSize(train=200, test=100, classes=10, id_bytes=800)
VARIANTS = ("dense", "prune-0.5", "prune-0.9", "int8-dynamic", "int8-static", "float16")
NETWORK = NetworkCost(
    weights=48_912,
    member_bytes=199_040,
    step_s=0.01,
    batch=64,
    tried=64,
    together=5,
    workers=2,
    peak_bytes=500_000_000,
    image_s=dict.fromkeys(VARIANTS, 1e-4),
)

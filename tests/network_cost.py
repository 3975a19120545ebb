"""A network's cost as it could have been measured."""

from __future__ import annotations

from scotoma.costs.estimate import AuditSize
from scotoma.costs.images import ImageFacts
from scotoma.costs.measure import NetworkCost

SIZE = AuditSize(train=200, test=100, classes=10, id_bytes=800)
IMAGES = ImageFacts((8, 8), 50_000)
NETWORK = NetworkCost(
    parameters=49_210,
    weights=48_912,
    member_bytes=199_040,
    start_s=2.0,
    step_s=0.01,
    batch=64,
    tried=64,
    together=5,
    workers=2,
    peak_bytes=500_000_000,
)

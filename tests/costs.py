"""The costs of a made-up network, as a trial would find them."""

from __future__ import annotations

from scotoma.costs.images import ImageFacts
from scotoma.costs.steps import Size
from scotoma.costs.trial import Span, Trial

SIZE = Size(train=200, test=100, classes=10, groups=5, id_bytes=800, cores=2)
IMAGES = ImageFacts((8, 8), 50_000)
TRIAL = Trial(
    parameters=49_210,
    weights=48_912,
    layers=3,
    member_bytes=199_040,
    start_s=4.0,
    step=Span(0.01, 0.008, 0.014, 25),
    together=5,
    tried=64,
    batch=64,
    image=Span(2e-5, 1e-5, 3e-5, 20),
    alone=Span(2e-4, 2e-4, 3e-4, 20),
    worker_bytes=500_000_000,
)

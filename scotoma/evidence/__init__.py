"""Which files prove to others what an audit found about one model?"""

from __future__ import annotations

from scotoma.evidence.release import Measurement, Release, measurements

__all__ = ["Measurement", "Release", "measurements"]

from scotoma.components.score_divergence.component import score_divergence

__all__ = ["score_divergence"]

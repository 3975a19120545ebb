from scotoma.components.prune_magnitude.component import prune_magnitude

__all__ = ["prune_magnitude"]

from scotoma.components.train_dense.component import train_dense

__all__ = ["train_dense"]

from scotoma.components.predict_batch.component import predict_batch

__all__ = ["predict_batch"]

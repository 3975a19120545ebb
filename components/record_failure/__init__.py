from scotoma.components.record_failure.component import record_failure

__all__ = ["record_failure"]

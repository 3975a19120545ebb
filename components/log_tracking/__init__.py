from scotoma.components.log_tracking.component import log_tracking

__all__ = ["log_tracking"]

from scotoma.components.log_scheduled.component import log_scheduled

__all__ = ["log_scheduled"]

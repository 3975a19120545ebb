from scotoma.components.begin_scheduled.component import begin_scheduled

__all__ = ["begin_scheduled"]

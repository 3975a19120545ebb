from scotoma.components.report_bias.component import report_bias

__all__ = ["report_bias"]

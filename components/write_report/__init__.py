from scotoma.components.write_report.component import write_report

__all__ = ["write_report"]

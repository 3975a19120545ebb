from scotoma.components.measure_robustness.component import measure_robustness

__all__ = ["measure_robustness"]

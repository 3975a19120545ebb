from scotoma.components.decide_verdict.component import decide_verdict

__all__ = ["decide_verdict"]

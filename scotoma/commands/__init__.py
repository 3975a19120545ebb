"""What does a command do? A module each, named as it is typed."""

from __future__ import annotations

__all__ = ["COMMANDS", "GROUPS", "RENAMED"]

COMMANDS: dict[str, str] = {  # in the order in which --help lists them
    "audit": "Train, compress, predict, compare and report; --plan says first what that will be.",
    "init": "Write a first configuration from the columns of a table.",
    "compare": "Compare models by logs, tables or boxes, and judge the change.",
    "slices": "Find slices on which a model is worse, or which compression harms more.",
    "show": "Show a finished audit: its page, examples, tables of papers; also trends and schemas.",
    "gate": "Judge a finished audit: PASS, UNSURE or FAIL for every variant.",
    "fix": "Fix a variant without training it again, and judge it beside the others.",
    "review": "Walk through the examples that a variant changes, and say which labels are wrong.",
    "study new": "Plan a study: a page for each person, and tasks for Label Studio.",
    "study result": "Analyse the answers to a study as planned.",
    "evidence": "Write what others accept as evidence about one model, bound to its SHA-256.",
    "tidy": "Delete models and predictions of old audits, as retraining.keep says.",
    "verify": "Check that the files of a run are those that its audit wrote.",
    "kubeflow submit": "Send an audit to Kubeflow, or resume a failed one; print the run's id.",
    "kubeflow status": "List the audits on Kubeflow, or show the steps of one run.",
    "kubeflow logs": "Print the logs of the steps that failed or have not ended, or of one step.",
    "kubeflow stop": "Stop a run; what is finished stays.",
    "kubeflow schedule": "Repeat an audit at the times of retraining.cron.",
    "kubeflow unschedule": "Remove a schedule; its audits stay.",
}
GROUPS: dict[str, str] = {
    "kubeflow": "Run audits on Kubernetes with Kubeflow Pipelines.",
    "study": "Ask people, blind, whether the examples that compression changes are different.",
}
RENAMED: dict[str, str] = {  # what a command of 0.1.0 was called, and what it is called now
    "pipeline compile": "kubeflow submit --dry-run",
    "pipeline submit": "kubeflow submit",
    "pipeline retry": "kubeflow submit --resume",
    "pipeline list": "kubeflow status",
    "pipeline status": "kubeflow status",
    "pipeline logs": "kubeflow logs",
    "pipeline cancel": "kubeflow stop",
    "pipeline schedule": "kubeflow schedule",
    "pipeline unschedule": "kubeflow unschedule",
    "pipeline": "kubeflow",
    "check": "audit --plan",
    "corrupt": "python examples/corrupt.py",
    "selftest": "audit --plan --planted",
    "report": "show RUN",
    "examples": "show RUN examples",
    "tables": "show RUN paper:NAME",
    "trend": "show trend",
    "schema": "show schema",
    "mitigate": "fix RUN --by dfr",
    "repair": "fix RUN --by layers",
    "bias": "compare",
    "diff": "compare RUN OTHER",
    "variance": "compare TABLE --techniques",
    "tournament": "compare RUNS --techniques",
}

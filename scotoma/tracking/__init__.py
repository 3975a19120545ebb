"""Where are the runs logged? In MLflow: a run for each audit, its variants below it, its models."""

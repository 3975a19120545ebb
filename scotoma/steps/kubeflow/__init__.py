"""Steps around an audit on Kubeflow: its begin, its schedule, its end."""

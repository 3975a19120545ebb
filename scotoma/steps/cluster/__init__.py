"""Steps around an audit on a cluster: its begin, its schedule, its end."""

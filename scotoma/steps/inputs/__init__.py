"""What an audit is of, and what changed since the last."""

"""What the measuring steps take from the predictions of a run."""

"""Models and predictions that were made outside Scotoma."""

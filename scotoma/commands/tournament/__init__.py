"""The command `scotoma tournament`."""

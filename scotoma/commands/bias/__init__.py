"""The command `scotoma bias`."""

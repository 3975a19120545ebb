"""The command `scotoma check`."""

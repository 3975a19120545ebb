"""The command `scotoma review`."""

"""The command `scotoma audit`."""

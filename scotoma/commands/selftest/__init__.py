"""The command `scotoma selftest`."""

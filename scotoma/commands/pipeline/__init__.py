"""The commands `scotoma pipeline ...`."""

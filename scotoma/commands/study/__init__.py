"""The commands `scotoma study ...`."""

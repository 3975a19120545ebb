"""The command `scotoma compare`."""

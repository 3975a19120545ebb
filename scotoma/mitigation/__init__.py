"""How do members train and decide so that groups fare alike? Pure functions of arrays."""

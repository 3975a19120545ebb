"""How members are trained and decide, so that groups fare alike: pure functions of arrays."""

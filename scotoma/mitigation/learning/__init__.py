"""What fairer members see and minimise: samplers, losses, multipliers and adversaries."""

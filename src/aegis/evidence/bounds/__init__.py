"""Lower bounds of a mean, the samples they are computed from, and the table BOUNDS of all of them by name."""

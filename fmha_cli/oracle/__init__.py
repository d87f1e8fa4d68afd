"""The oracle: float64 reference, seeded fills and the tolerance that judges a kernel."""

"""The oracle: float64 reference, low-precision emulation, seeded fills and the tolerance that judges a kernel."""

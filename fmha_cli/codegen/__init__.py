"""KernelSpec to source text: pure functions, standard library only, nothing is written to disk."""

"""A backend of wrong kernels, one for each fault, as a plugin that uses public names alone."""

"""A backend of wrong kernels, one for each fault, as a plugin that uses ``fmha_cli.api`` alone."""

"""What exists and what is chosen: plugins, the registry, selection, filters, named sets of kernels, sweeps."""

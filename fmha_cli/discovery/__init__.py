"""Discovery and choice: plugins, the registry, selection, filters, named sets of kernels, sweeps."""

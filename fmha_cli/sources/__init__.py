"""Third-party sources that kernels are built from: pinned, fetched from the package index, verified, unpacked."""

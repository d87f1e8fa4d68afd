"""C++ translation units of CK-Tile kernels: our own text around the headers of an installed or fetched CK."""

"""C++ translation units of CK-Tile kernels: generated text that includes the headers of an installed or fetched CK."""

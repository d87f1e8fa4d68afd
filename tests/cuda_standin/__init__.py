"""A stand-in for the CUDA driver: it records launches and runs nothing itself."""

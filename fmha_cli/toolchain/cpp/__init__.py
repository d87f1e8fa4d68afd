"""The C++ compiler of this machine: found, proved by a compile, and run through the cache."""

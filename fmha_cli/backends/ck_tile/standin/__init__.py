"""A recording stand-in for libamdhip64. CK's real host code runs against it if no device exists."""

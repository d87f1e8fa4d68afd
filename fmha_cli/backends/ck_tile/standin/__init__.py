"""A recording stand-in for libamdhip64: CK's real host code runs against it where there is no device."""

"""Results that last: the store of every run, its names, and reading runs from it or from files."""

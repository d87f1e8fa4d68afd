"""Comparing this tool with upstream CK's own example programs, case by case."""

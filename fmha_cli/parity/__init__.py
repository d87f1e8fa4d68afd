"""Comparing this tool with an upstream project's own programs, case by case."""

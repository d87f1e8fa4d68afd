"""The content-addressed cache of compiled files."""

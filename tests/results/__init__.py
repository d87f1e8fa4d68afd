"""Tests of the room ``results``."""

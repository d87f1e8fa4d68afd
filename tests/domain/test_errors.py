"""What errors say: a rule of the product is distinguished from messages of the system, a library or a compiler."""

from __future__ import annotations

import pytest

from fmha_cli.domain.errors import (
    EnvironmentProblem,
    FmhaError,
    ImpossibleProblem,
    InternalError,
    KernelFailure,
    UnsupportedError,
    UsageError,
)

pytestmark = pytest.mark.promise("An error of the system is shown as the cause, and nothing that was named is skipped.")


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        (UsageError, "rule"),
        (ImpossibleProblem, "rule"),
        (UnsupportedError, "rule"),
        (EnvironmentProblem, "cause"),
        (KernelFailure, "cause"),
        (InternalError, "cause"),
    ],
)
def test_why_is_a_rule_or_a_cause(kind: type[FmhaError], word: str) -> None:
    assert kind("w", code="E001", why="because").render() == f"error[E001]: w\n  = {word}: because"


def test_an_operating_systems_error_is_never_a_rule() -> None:
    error = UsageError("q.npy: cannot be opened", why="no such file")
    error.__cause__ = OSError(2, "No such file")
    assert "\n  = cause: no such file" in error.render()


def test_the_rule_of_an_error_that_another_one_of_ours_led_to_stays_a_rule() -> None:
    error = UsageError("w", why="every key/value head serves as many")
    error.__cause__ = ImpossibleProblem("v")
    assert "\n  = rule: " in error.render()

"""Configuration files that are damaged or hold values of the wrong type: exit 2, one message, never a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Fmha

DAMAGED = {
    "lists nested 3000 deep": ("a = " + "[" * 3000 + "]" * 3000, "C001"),
    "tables nested 3000 deep": ("a = " + "{a = " * 3000 + "1" + "}" * 3000, "C001"),
    "dotted key 3000 deep, of an option": ("run.heads" + ".a" * 3000 + " = 1", "C003"),
    "not UTF-8": (b"heads = '\xff'", "C001"),
    "no value": ("heads =", "C001"),
    "null character": ('out = "a\\u0000b"', "C003"),
    "list for a switch": ("lse = [true]", "C003"),
    "table for an option": ("run.heads = {a = 1}", "C003"),
    "date for a size": ("heads = 1979-05-27", "C003"),
    "list of lists": ("heads = [[1]]", "C003"),
    "number for a table": ("run = 5", "C002"),
    "switch for a text": ("dtype = false", "C003"),
    "integer beyond every size": ("heads = " + "9" * 4400, "C001"),
}


@pytest.mark.promise("Damaged files are refused in one line, and only what is asked for is read.")
@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_configuration_is_refused(fmha: Fmha, name: str) -> None:
    text, code = DAMAGED[name]
    Path("fmha.toml").write_bytes(text if isinstance(text, bytes) else text.encode())
    done = fmha("run", "--backend", "null", "-s", "16")
    assert done.code == 2
    assert f"error[{code}]" in done.err
    assert "fmha.toml" in done.err
    assert len(done.err) < 1000

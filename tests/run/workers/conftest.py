"""Here every worker is the new interpreter that ``fmha`` starts; elsewhere it is a fork (``tests.support.forked_workers``)."""

from __future__ import annotations

import subprocess

import pytest

from fmha_cli.run import process


@pytest.fixture(autouse=True)
def _new_interpreters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "subprocess", subprocess)

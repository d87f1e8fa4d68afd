"""A store with a tuned problem of the ring backend, without the fresh processes of a confirmation."""

from __future__ import annotations

from typing import Any

import pytest

from fmha_cli.bench.compare import Speed
from fmha_cli.bench.difference import Difference
from fmha_cli.tune import confirming
from tests.cli.conftest import Fmha


def difference(speed: Speed = Speed.FASTER, **changes: Any) -> Difference:
    """What fresh processes would have found: the fastest kernel is twice as fast."""
    told: dict[str, Any] = {
        "processes_before": 5,
        "processes_after": 5,
        "before_ns": 200.0,
        "after_ns": 100.0,
        "ratio": 0.5,
    }
    told |= {"ratio_ci95": (0.4, 0.625), "spread": 0.1, "drift": None, "p": 0.01, "p_adjusted": 0.01, "could_see": 0.05}
    told |= {"suspicious": False, "speed": speed, "why": "processes differ by 10 %" if speed is Speed.UNSURE else None}
    return Difference(**(told | changes))


def remember(fmha: Fmha, monkeypatch: pytest.MonkeyPatch, *words: str) -> None:
    """Tune problems whose winner is surely faster."""
    with monkeypatch.context() as patched:
        patched.setattr(confirming.Confirmer, "difference", lambda self, default, winner: difference())
        done = fmha("tune", *words, "--json")
    assert done.code == 0, done.err

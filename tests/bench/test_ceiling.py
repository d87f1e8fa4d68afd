"""What the machine reached around timed launches."""

from __future__ import annotations

import pytest

from fmha_cli.bench.conditions import Ceiling
from fmha_cli.bench.measurement import Measurement
from fmha_cli.bench.roofline import Bound
from fmha_cli.domain.codec import from_json, to_json


@pytest.mark.parametrize(
    ("before", "after", "moved"),
    [(100.0, 100.0, False), (100.0, 91.0, False), (100.0, 89.0, True), (50.0, 100.0, True)],
)
def test_a_tenth_is_a_move(before: float, after: float, moved: bool) -> None:
    ceiling = Ceiling(bound=Bound.COMPUTE, before=before, after=after)
    assert ceiling.moved is moved
    assert to_json(ceiling) == {"bound": "compute", "before": before, "after": after, "moved": moved}
    assert from_json(Ceiling, to_json(ceiling)) == ceiling


@pytest.mark.promise("Settings of CPU kernels come from sourced facts, or from a measurement despite noise.")
def test_a_row_says_so() -> None:
    row = Measurement(launches=((5,),), flops=1, bytes=1, ceiling=Ceiling(bound=Bound.MEMORY, before=2e10, after=1e10))
    assert row.notes == ("the machine's ceiling moved during the row: 20.0 GB/s before, 10.0 GB/s after",)
    still = Measurement(launches=((5,),), flops=1, bytes=1, ceiling=Ceiling(bound=Bound.MEMORY, before=2.0, after=2.0))
    assert still.notes == ()

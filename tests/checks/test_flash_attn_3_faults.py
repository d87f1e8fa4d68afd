"""The recorded faults in FlashAttention-3's kernels: enough of them, none unexplained, and those of order read."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.checks.flash_attn_3_faults import KERNELS
from tests.checks.flash_attn_3_readings import reading
from tests.support.planted.outcomes import EXPLAINED, Caught
from tests.support.planted.statements import ORDERING, Planted
from tools.result_data import data_of


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    return [row for row in data_of("flash_attn_3_faults")["rows"] if row["caught"]]


def test_enough_faults_of_every_kernel_are_recorded(rows: list[dict[str, Any]]) -> None:
    counts = Counter(row["kernel"] for row in rows)
    assert counts.keys() == {kernel.name for kernel in KERNELS}
    assert counts.total() >= 150
    assert Caught.UNEXPLAINED not in {row["caught"] for row in rows}


def test_faults_of_order_that_nothing_caught_are_read(rows: list[dict[str, Any]]) -> None:
    kinds = {*ORDERING, Planted.REGISTERS}
    missed = {*EXPLAINED} - {Caught.NEVER_EXECUTED}
    unread = [row for row in rows if row["fault"] in kinds and row["caught"] in missed and not row["reading"]]
    assert unread == []
    assert all(row["reading"] == reading(row) for row in rows)

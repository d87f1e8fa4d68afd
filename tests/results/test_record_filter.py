"""``--filter`` over records."""

from __future__ import annotations

import pytest

from fmha_cli.domain.errors import EmptySelection, UsageError
from fmha_cli.results.filtering import filtered
from tests.support.generators.runs_to_compare import failed, processes, timed

RECORDS = (
    timed(processes(9_000, 1)),
    timed(processes(9_000, 1), seqlen=128),
    timed(processes(9_000, 1), backend="torch", kernel="b"),
    failed(),
)


@pytest.mark.parametrize(
    ("terms", "left"),
    [
        ("seqlen_q:64", [0, 2, 3]),
        ("seqlen_q:64,backend:cpu", [0, 3]),
        ("backend:torch,backend:cpu", [0, 1, 2, 3]),
        ("-verdict:WRONG", [0, 1, 2]),
        ("kernel:*-b", [2]),
        ("cache:hot", [0, 1, 2]),
        ("threads:1,dtype:fp16,mask:none", [0, 1, 2]),
        ("model:", None),
    ],
)
def test_records_that_match_are_left(terms: str, left: list[int] | None) -> None:
    if left is None:
        with pytest.raises(UsageError, match="KEY:GLOB"):
            filtered(RECORDS, [terms])
        return
    found = filtered(RECORDS, [terms])
    assert list(found) == [RECORDS[i] for i in left]


def test_a_kernel_is_found_by_its_digest() -> None:
    kernel = RECORDS[0].kernel
    assert kernel is not None
    assert filtered(RECORDS, [f"digest:{kernel.digest[:8]}*,verdict:WRONG"]) == RECORDS[3:]


def test_a_filter_that_matches_nothing_names_its_term() -> None:
    with pytest.raises(EmptySelection, match="matches none of the 4 records"):
        filtered(RECORDS, ["backend:*", "mask:causal"])


def test_an_unknown_key_is_refused() -> None:
    with pytest.raises(UsageError, match="no such key 'hdin'"):
        filtered(RECORDS, ["hdin:64"])


def test_the_keys_are_members_of_a_problem_and_nothing_else() -> None:
    with pytest.raises(UsageError) as caught:
        filtered([], ["nonsense:x"])
    assert "seqlen_q" in str(caught.value.help)
    assert "json_always" not in str(caught.value.help)

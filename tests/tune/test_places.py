"""Where a tuned kernel counts: scopes, and the lengths between tuned ones."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmha_cli.bench.entry import Scope, bounds, owner, place_of
from fmha_cli.domain.problem import Problem
from tests.support.generators.report.tuned_problems import SCOPE

OTHER = {"units": 64, "threads": 8}


@pytest.mark.promise(
    "`explain` says why a tuned kernel is not used, and files for other projects are exact.",
    "A tuned kernel counts only in its scope, is legal by rules, and computes attention.",
)
@pytest.mark.parametrize("name", [field.name for field in fields(Scope)])
def test_any_difference_is_told(name: str) -> None:
    changed = replace(SCOPE, **{name: OTHER.get(name, "another")})
    (text,) = SCOPE.differences(changed)
    assert text.startswith(name)
    assert changed.digest != SCOPE.digest
    assert (changed.device_digest != SCOPE.device_digest) == (name in ("device", "units", "driver"))


def test_no_difference() -> None:
    assert SCOPE.differences(replace(SCOPE)) == ()


@pytest.mark.promise("A tuned kernel counts only in its scope, is legal by rules, and computes attention.")
@given(st.lists(st.integers(1, 10**6), min_size=1, unique=True).map(sorted), st.integers(0, 10**6 + 10))
def test_the_nearest_tuned_length_owns_a_length(tuned: list[int], at: int) -> None:
    found = owner(tuned, at)
    if not tuned[0] <= at <= tuned[-1]:
        assert found is None
        return
    assert found is not None
    assert abs(tuned[found] - at) == min(abs(length - at) for length in tuned)
    assert all(owner(tuned, length) == place for place, length in enumerate(tuned))


def test_bounds_belong_to_the_longer_one() -> None:
    assert bounds((512, 513, 1024)) == (513, 769)
    assert [owner((512, 1024), at) for at in (511, 512, 767, 768, 1024, 1025)] == [None, 0, 0, 1, 1, None]
    assert owner((), 5) is None


def test_problems_that_differ_in_one_length_are_a_family() -> None:
    def of(**flags: str | int | bool) -> str:
        return place_of(Problem.of(**flags)).family

    assert of(seqlen=512) == of(seqlen=1024)
    assert of(seqlen=1, seqlen_k=512) == of(seqlen=1, seqlen_k=1024)
    assert place_of(Problem.of(seqlen=1, seqlen_k=1024)).at == 1024
    others = [of(seqlen=512), of(seqlen=1, seqlen_k=512), of(seqlen=2, seqlen_k=512), of(seqlen=512, causal=True)]
    others += [of(seqlen=512, batch=2), of(seqlens_q="512,1"), of(seqlens_q="512,2"), of(seqlen=512, dtype="bf16")]
    assert len(set(others)) == len(others)

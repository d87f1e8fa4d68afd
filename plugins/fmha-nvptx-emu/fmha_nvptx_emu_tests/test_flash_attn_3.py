"""FlashAttention-3's kernels executed from their own PTX: right numbers under three seeds and both arithmetics.

NVRTC and ptxas compile each kernel for 31 to 57 seconds; a row then takes seconds. ``python -m tests.checks flash_attn_3_check`` has all problems.
"""

from __future__ import annotations

import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")
pytest.importorskip("cuda.bindings")

from fmha_cli.domain.features import Arithmetic
from tests.checks.flash_attn_3_check import KNOWN, SEEDS, rows_of
from tests.checks.flash_attn_3_problems import PROBLEMS, Fa3Problem

pytestmark = pytest.mark.timeout(3600)
FENCE, WORD = "missing-fence", "uninitialised-register"
SMALL = next(problem for problem in PROBLEMS if "-s 150 -d 64" in problem.flags)
"""The kernel that is soonest compiled. CI executes this one."""
FEATURES = {
    "dense, no mask": set(),
    "dense, cluster of two": set(),
    "dense, rows without keys": set(),
    "dense, window": set(),
    "fp8": set(),
    "packed query heads": {FENCE},
    "splits": {FENCE},
    "packed sequences": {FENCE},
    "linear cache": set(),
    "pages read by TMA": set(),
    "pages read by cp.async": {FENCE},
    "appended keys": set(),
    "appended keys of fp8": set(),
    "latent attention": set(),
    "latent attention, caches": {FENCE},
}
"""What the emulator finds in the first problem of a feature. Packed query heads and other pages arrive by ``cp.async``."""


def first(feature: str) -> Fa3Problem:
    return next(problem for problem in PROBLEMS if problem.feature == feature)


def executed(problem: Fa3Problem, kinds: set[str]) -> None:
    rows = list(rows_of(problem))
    assert len(rows) == len(Arithmetic) * len(SEEDS), rows[-1]
    for row in rows:
        assert row["verdict"] == (KNOWN if kinds else "PASSED"), row
        assert set(row["findings"]) == kinds


@pytest.mark.slow
@pytest.mark.ci
def test_a_small_kernel_passes() -> None:
    executed(SMALL, set())


@pytest.mark.slow
@pytest.mark.parametrize("feature", FEATURES)
def test_a_kernel_of_a_feature_is_right(feature: str) -> None:
    executed(first(feature), FEATURES[feature])


@pytest.mark.slow
def test_a_split_that_does_not_fill_the_last_tile_of_what_adds_up_has_an_undefined_word() -> None:
    executed(next(problem for problem in PROBLEMS if "-s 601" in problem.flags), {FENCE, WORD})


def test_every_feature_is_among_the_problems() -> None:
    others = {"dense, causal", "dense, softcap", "packed sequences, splits", "further head dims and types"}
    assert FEATURES.keys() | others == {problem.feature for problem in PROBLEMS if "bwd" not in problem.flags}

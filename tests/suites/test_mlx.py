"""MLX's tests of its fast attention (``python/tests/test_fast_sdpa.py``), replayed on the CPU kernels.

References, tolerances and values are MLX's own, computed by MLX on the CPU. Of a test with a product of parameters, a sample by seed
with seqlen_q x seqlen_k <= 66,000 is run.
"""

from __future__ import annotations

import itertools
import random
import unittest
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import pytest

from tests.support.referees.upstream_suites import Suite, stand_ins

pytestmark = [pytest.mark.slow]

SUITE = Suite(
    url="https://github.com/ml-explore/mlx",
    commit="846d176227a0ac13d2667e58d2bb68b322109ab0",
    variable="FMHA_SUITE_MLX",
    digests={
        "python/tests/test_fast_sdpa.py": "f5f93a35ad3626f0329c20627e16118d4259590b31d6e1e1a58ca51494a179a3",
        "python/tests/mlx_tests.py": "e3ff7708e7d0ee3c3db9f8a830722de0254802283bc5b24fce2445ea3a4018d7",
    },
)
LARGEST = 66_000
SAMPLED = 40

RUN = (
    "test_sdpa",
    "test_sdpa_attention_sinks",
    "test_sdpa_broadcast_mask",
    "test_sdpa_few_query",
    "test_sdpa_fully_masked",
    "test_sdpa_grad",
    "test_sdpa_head_dim_72",
    "test_sdpa_head_dim_96",
    "test_sdpa_inf_score",
    "test_sdpa_nan_bug",
    "test_sdpa_noncontiguous_inputs",
    "test_sdpa_promote_mask",
    "test_sdpa_sliced",
    "test_sdpa_vector",
    "test_sdpa_vector_batched",
    "test_sdpa_vector_gqa_long",
    "test_sdpa_vector_kv_transposed_head_seq",
)
NOT_RUN = {
    "test_sdpa_blocks_env_override": "tests a variable of MLX's environment",
    "test_sdpa_force_fused_cuda": "tests which kernels MLX has on a CUDA device",
    "test_sdpa_force_fused_metal": "tests which kernels MLX has in Metal, and their errors",
    "test_sdpa_full_head_dim_256": "2,048 queries and keys, beyond the limit of sizes",
    "test_sdpa_long_masked_sequence": "512 queries and up to 66,048 keys, beyond the limit of sizes",
    "test_sdpa_vector_value_dims": "upstream skips it: its kernels do not serve another head dim of V",
}


@pytest.fixture(scope="module")
def upstream() -> Iterator[ModuleType]:
    """The test file as a module, its kernel replaced by the shim's."""
    why = SUITE.missing() or ("mlx is not installed" if find_spec("mlx") is None else None)
    if why:
        pytest.skip(why)
    with pytest.MonkeyPatch.context() as patch:
        yield loaded(patch)


def loaded(patch: pytest.MonkeyPatch) -> ModuleType:
    import mlx.core as mx

    patch.setattr(mx, "is_available", lambda device: True)  # a skip of upstream's for want of a GPU
    helpers = SUITE.load("python/tests/mlx_tests.py", "mlx_tests")
    with stand_ins({"mlx_tests": helpers}):
        module = SUITE.load("python/tests/test_fast_sdpa.py", "mlx_fast_attention_tests")
    patch.setattr(mx.fast, "scaled_dot_product_attention", shim().scaled_dot_product_attention)
    vars(module)["product"] = sampled_product
    return module


def shim() -> ModuleType:
    return import_module("tests.support.fakes.shims.mlx")


def sampled_product(*axes: Any) -> list[Any]:
    """As many combinations as are run, always the same ones."""
    small = [combination for combination in itertools.product(*axes) if _rows_times_keys(combination) <= LARGEST]
    return random.Random("mlx").sample(small, min(SAMPLED, len(small)))


def _rows_times_keys(combination: tuple[Any, ...]) -> int:
    shape = next((part for part in combination if isinstance(part, tuple)), None)
    return int(combination[0] * combination[1] if shape is None else shape[1] * shape[2])


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", RUN)
def test_as_upstream_asserts(upstream: ModuleType, name: str) -> None:
    before = shim().CALLS[0]
    failed = unittest.TestResult()
    upstream.TestFastSDPA(name).run(failed)
    assert not failed.skipped
    assert [text for _, text in (*failed.errors, *failed.failures)] == []
    print(shim().CALLS[0] - before, "calls of the product")


def test_every_test_function_is_run_or_has_its_reason(upstream: ModuleType) -> None:
    assert {name for name in vars(upstream.TestFastSDPA) if name.startswith("test_")} == {*RUN, *NOT_RUN}

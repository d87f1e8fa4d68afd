"""JAX's attention tests, replayed on the CPU kernels: ``jax.nn``'s, and those of its Pallas kernels for GPUs.

References, tolerances and values are JAX's own, computed by XLA on the CPU. JAX draws the cases of its large products itself (20 of
each, by its own seed); all sizes are run, the largest of which is 384 queries and keys with 8 heads.
"""

from __future__ import annotations

import unittest
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.support.referees.upstream_suites import Suite

pytestmark = [pytest.mark.slow]

SUITE = Suite(
    url="https://github.com/jax-ml/jax",
    commit="cec06d116c05f0d52adfceee3d3b730fdbcb0ce5",
    variable="FMHA_SUITE_JAX",
    digests={
        "tests/nn_test.py": "6155ef856cc1a19c97bb6bdb8040ddfe18e16f7dc9957011a4d18cea00fe1a9b",
        "tests/pallas/gpu_attention_test.py": "2f8c0a2be1789664264751df487efc9f2189642196111d6de5af830cadda6cea",
        "tests/pallas/gpu_ops_test.py": "880eccca151abe80adb786ef75923e168144273a58da175daeec1f32424d8e76",
        "tests/pallas/gpu_paged_attention_test.py": "ba57805706b7efe3145e16608c6eb3c0e93ea5c8b67d50b4acb68ae3828b9c00",
    },
)
NN, DECODE, FUSED, PAGED = SUITE.digests
CASES = "20"
"""How many cases JAX draws of a product (its variable JAX_NUM_GENERATED_CASES)."""

RUN = {
    (NN, "NNFunctionsTest"): (
        "testDotProductAttention",
        "testDotProductAttentionMask",
        "testDotProductAttentionBiasGradient",
        "testDotProductAttention_localWindowSizeWithoutMask",
    ),
    (DECODE, "DecodeAttentionInterpretTest"): ("test_mqa", "test_gqa"),
    (FUSED, "FusedAttentionInterpretTest"): ("test_fused_attention_fwd", "test_fused_attention_bwd"),
    (PAGED, "PagedAttentionInterpretTest"): ("test_paged_attention",),
}
NOT_RUN = {
    "testDotProductAttentionFloat64MaskDebugInfs": "64-bit tensors, which no kernel of the product takes; the test looks at JAX's own trace",
    "test_return_residuals_not_differentiable": "tests an error of JAX's own function",
    "test_quantized_paged_attention": "a scale for each row of a page; the product has them by tensor, head and block",
}
BY_DEFAULT = "testDotProductAttention_localWindowSizeWithoutMask"
"""It asks for no implementation, which in the other tests is the reference, and here the product."""
RESIDUALS = "return_residuals=True"
"""Cases of DECODE that are not run: they want the maximum and the sum of a row, of which kernels return the logarithm LSE."""


@cache
def upstream(path: str) -> ModuleType:
    """A test file as a module, on the shim."""
    from tests.support.fakes.shims import jax as shim

    with _environment(JAX_NUM_GENERATED_CASES=CASES, JAX_PLATFORMS="cpu"):
        module: Any = SUITE.load(path, f"jax_{path.rpartition('/')[2].removesuffix('.py')}")
    if path == NN:
        own = module.nn.dot_product_attention
        functions = {**vars(module.nn), "dot_product_attention": partial(shim.dot_product_attention, of_jax=own)}
        module.nn = SimpleNamespace(**functions)
        module.jax = SimpleNamespace(**{**vars(module.jax), "nn": module.nn})
        module._check_cudnn_backend = lambda *args: True  # whether XLA calls cuDNN
        module.jtu = _with_a_device(module.jtu)
    for name in {DECODE: ["decode_attention"], FUSED: ["attention"], PAGED: ["paged_attention"]}.get(path, []):
        make = shim.fused_attention if name == "attention" else getattr(shim, name)
        setattr(module, name, make(getattr(module, name)))
    return module


@contextmanager
def _environment(**variables: str) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        yield


def _with_a_device(jtu: Any) -> Any:
    """JAX's test helpers, for which the product is a device whose cuDNN serves everything."""
    answers = {
        "is_cuda_compute_capability_at_least": lambda version: True,
        "is_cuda_version_at_least": lambda *v: False,
    }
    return SimpleNamespace(**{**vars(jtu), **answers})


def cases(path: str, group: str, function: str) -> list[str]:
    """JAX's names of the cases of a test."""
    found = [name for name in dir(getattr(upstream(path), group)) if _function(name) == function]
    return [name for name in found if RESIDUALS not in name]


def _function(name: str) -> str:
    """``test_it1`` and ``test_it_a=1_b=2`` are cases of ``test_it``."""
    known = [*NOT_RUN, *(function for functions in RUN.values() for function in functions)]
    return max((one for one in known if name.startswith(one)), key=len, default=name)


def missing() -> str | None:
    absent = [name for name in ("jax", "absl", "scipy") if find_spec(name) is None]
    return SUITE.missing() or (f"{absent[0]} is not installed" if absent else None)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "name" not in metafunc.fixturenames:
        return
    chosen = "slow" in metafunc.config.option.markexpr and "not slow" not in metafunc.config.option.markexpr
    why = missing() if chosen else "a slow suite"
    if why:
        none = pytest.param(None, None, None, marks=pytest.mark.skip(reason=why), id="suite")
        metafunc.parametrize(("path", "group", "name"), [none])
        return
    taken = [
        pytest.param(path, group, name, id=f"{group}-{name}")
        for (path, group), functions in RUN.items()
        for function in functions
        for name in cases(path, group, function)
    ]
    metafunc.parametrize(("path", "group", "name"), taken)


@pytest.mark.timeout(1800)
def test_as_upstream_asserts(path: str, group: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.support.fakes.shims import jax as shim

    if name == BY_DEFAULT:
        monkeypatch.setattr(upstream(path).nn, "dot_product_attention", shim.dot_product_attention)
    before, result = shim.CALLS[0], unittest.TestResult()
    getattr(upstream(path), group)(name).run(result)
    assert [text for _, text in (*result.errors, *result.failures)] == []
    if result.skipped:
        pytest.skip(result.skipped[0][1])
    assert shim.CALLS[0] > before, "the product computed nothing"


def test_every_attention_test_is_run_or_has_its_reason() -> None:
    why = missing()
    if why:
        pytest.skip(why)
    named = {
        _function(name)
        for path, group in RUN
        for name in dir(getattr(upstream(path), group))
        if name.startswith("test") and (path != NN or "Attention" in name)
    }
    assert named == {*NOT_RUN, *(function for functions in RUN.values() for function in functions)}

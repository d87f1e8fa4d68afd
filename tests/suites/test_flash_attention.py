"""FlashAttention's tests of its CUDA kernels (``tests/test_flash_attn.py``), replayed on the CPU kernels.

Its references, its tolerances and its cases are used as they are. A case is run only if seqlen_q x seqlen_k <= 66,000 (the limit
that a CPU reference sets); of these, a sample by seed. Loops of 50 and more repetitions make three.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import pytest

from tests.support.referees.upstream_suites import Suite, SuiteCase, cases_of, sample, skipped, stand_ins, taken

pytestmark = [pytest.mark.slow]

SUITE = Suite(
    url="https://github.com/Dao-AILab/flash-attention",
    commit="0251105a2fb19d2957484b7f023cd8c115286ced",
    variable="FMHA_SUITE_FLASH_ATTENTION",
    digests={
        "tests/test_flash_attn.py": "71984b919237657da4c8dea7a14728104c848a6122dc551302dbd8470745e878",
        "flash_attn/bert_padding.py": "805d449ac749f87a50f3a3114385710f0f926ff45521275000b74d9e80721e5c",
    },
)
LARGEST = 66_000
REPETITIONS = 3

CASES = {
    "test_flash_attn_qkvpacked": 40,
    "test_flash_attn_varlen_qkvpacked": 40,
    "test_flash_attn_output": 60,
    "test_flash_attn_varlen_output": 60,
    "test_flash_attn_causal": 30,
    "test_flash_attn_varlen_causal": 40,
    "test_flash_attn_splitkv": 40,
    "test_flash_attn_kvcache": 100,
    "test_flash_attn_race_condition": 6,
    "test_flash_attn_bwd_overflow": 12,
    "test_flash_attn_bwd_transpose": 8,
    "test_flash_attn_bwd_varlen_overflow": 6,
    "test_flash_attn_deterministic": 8,
    "test_flash_attn_varlen_deterministic": 8,
    "test_flash_attn_kvcache_paged_block_table_bounds": 2,
}
NOT_RUN = {
    "test_flash_attn_varlen_paged_kv_num_splits": "asserts that upstream's own binding refuses num_splits=2, which the product serves",
    "test_flash_attn_generator_arg_must_be_none": "tests a slot in the argument list of upstream's C++ binding",
}
"""The one known difference: which cases it concerns depends on the lengths that the test draws."""


@cache
def upstream() -> ModuleType:
    """The test file as a module, on the shim."""
    import torch

    from tests.support.fakes.shims import flash_attn as shim

    torch.set_num_threads(1)
    patch = pytest.MonkeyPatch()
    patch.setattr(torch.cuda, "get_device_capability", lambda device=None: (8, 0))
    padding = SUITE.load("flash_attn/bert_padding.py", "flash_attn.bert_padding")
    try:
        with stand_ins(shim.stand_in_modules(padding)):
            module = SUITE.load("tests/test_flash_attn.py", "flash_attention_tests")
    finally:
        patch.undo()
    vars(module)["range"] = lambda *n: range(*n) if max(n) < 50 else range(REPETITIONS)
    vars(module)["normalize_flash_attn_S"] = lambda p, q, *rest, **options: p.to(q.dtype)
    return module


def small(name: str, case: SuiteCase) -> bool:
    """The rule of sizes; cases that upstream's own test skips are left out too."""
    rows, keys = (case.get(axis, case.get("seqlen", 1)) for axis in ("seqlen_q", "seqlen_k"))
    if name == "test_flash_attn_kvcache":
        rotated = case["rotary_fraction"] > 0 and not case["new_kv"]
        if rotated or (case["has_leftpad"] and case["paged_kv_block_size"] is not None):
            return False
    if case.get("softcap") and case.get("dropout_p"):
        return False
    return bool(rows * keys <= LARGEST)


def parameters() -> list[Any]:
    why = SUITE.missing()
    absent = [name for name in ("torch", "einops") if find_spec(name) is None]
    if why or absent:
        return skipped(why or f"{absent[0]} is not installed")
    module = upstream()
    return taken(
        [
            (name, case)
            for name, number in CASES.items()
            for case in sample((c for c in cases_of(getattr(module, name)) if small(name, c)), number, name)
        ]
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" in metafunc.fixturenames:
        chosen = "slow" in metafunc.config.option.markexpr and "not slow" not in metafunc.config.option.markexpr
        metafunc.parametrize(("name", "case"), parameters() if chosen else skipped("a slow suite"))


@pytest.fixture
def on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What the tests put on the device "cuda" is on the CPU."""
    import torch
    from torch.overrides import TorchFunctionMode

    class OnTheCpu(TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = dict(kwargs or {})
            if kwargs.get("device") == "cuda":
                kwargs["device"] = "cpu"
            return function(*args, **kwargs)

    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: type("", (), {"total_memory": 2**40}))
    with OnTheCpu():
        yield


@pytest.mark.usefixtures("on_the_cpu")
@pytest.mark.timeout(1800)
def test_as_upstream_asserts(name: str, case: SuiteCase) -> None:
    getattr(upstream(), name)(**case)


def test_every_test_function_is_run_or_has_its_reason() -> None:
    why = SUITE.missing()
    if why or find_spec("torch") is None or find_spec("einops") is None:
        pytest.skip(why or "torch or einops is not installed")
    functions = {name for name in vars(upstream()) if name.startswith("test_")}
    assert functions == {*CASES, *NOT_RUN}
    assert not CASES.keys() & NOT_RUN.keys()

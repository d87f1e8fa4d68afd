"""The emitted text: pure, stable, plain ASCII, and equal to the reviewed text."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from fmha_cli.codegen.ck_tile.algorithm import CkAlgorithm, Pipeline
from fmha_cli.codegen.ck_tile.emit import emit
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.errors import EnvironmentProblem, InternalError
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.signature import Signature
from tests.support.golden.ck_tile import DIGESTS, GOLDEN, digests, golden_kernels, own_text
from tests.support.paths import ROOT

UPDATE = "python -m tests.support.golden.update_ck_tile"
NAMES = sorted(path.name for path in GOLDEN.glob("*.hip"))
"""The reviewed texts. Choosing their kernels takes seconds, so only a running test does it."""


@pytest.mark.sampled(8, ci="all")
@pytest.mark.parametrize("name", NAMES)
def test_texts_are_the_reviewed_ones(name: str) -> None:
    assert own_text(golden_kernels()[name]) == (GOLDEN / name).read_text("utf-8"), f"a wanted change? run {UPDATE}"


def test_whole_texts_are_the_reviewed_ones() -> None:
    assert digests() == json.loads((GOLDEN / DIGESTS).read_text("utf-8")), f"a wanted change? run {UPDATE}"


def test_no_golden_file_is_left_over() -> None:
    assert set(NAMES) == golden_kernels().keys()


def test_every_family_is_there() -> None:
    assert {name.split("-")[0] for name in NAMES} == {family.value for family in Family} - {"fwd_prepare"}, (
        "upstream has no kernel that only prepares"
    )


@pytest.mark.parametrize("name", NAMES)
def test_only_headers_that_an_installed_rocm_has(name: str) -> None:
    included = re.findall(r"#\s*include\s*(\S+)", emit(golden_kernels()[name]))
    assert included
    for header in included:
        assert header.startswith("<"), header
        assert re.fullmatch(r"<(c?[a-z_]+|hip/hip_runtime\.h|ck_tile/.+\.hpp)>", header), header
        assert "01_fmha" not in header


@pytest.mark.parametrize("name", NAMES)
def test_text_is_plain_and_keeps_no_state(name: str) -> None:
    text = emit(golden_kernels()[name])
    assert text.isascii()
    assert text.endswith("\n")
    assert "\t" not in text
    kept = [line for line in text.splitlines() if re.match(r"(static|thread_local|inline)\b", line) and "(" not in line]
    assert all("constexpr" in line for line in kept), kept
    assert not re.search(r"^\s+static (?!constexpr|void|_cast)", text, re.MULTILINE)


@pytest.mark.slow
@pytest.mark.ci
def test_text_depends_on_the_kernel_alone() -> None:
    code = (
        "import hashlib; from tests.support.golden.ck_tile import golden_kernels, emit\n"
        "print(hashlib.sha256(''.join(emit(k) for k in golden_kernels(('gfx1201',)).values()).encode()).hexdigest())"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT), "PATH": ""},
            cwd=str(GOLDEN),
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(seen) == 1


def forward(arch: str = "gfx942", **choices: Any) -> KernelSpec:
    """A golden kernel with other choices. Only running tests call it: pytest collects this file in every worker."""
    kernel = golden_kernels()["fwd-gfx942-qr.hip"]
    assert isinstance(kernel.algorithm, CkAlgorithm)
    return replace(kernel, arch=arch, algorithm=replace(kernel.algorithm, **choices))


@pytest.mark.parametrize(
    "choices",
    [{"rev": "2026-08"}, {"pipeline": Pipeline.QR_TDM}, {"pipeline": Pipeline.QR_HPAD}],
    ids=["revision", "qr_tdm", "qr_hpad"],
)
def test_what_the_baseline_lacks_is_refused(choices: dict[str, Any]) -> None:
    with pytest.raises(EnvironmentProblem) as refused:
        emit(forward(**choices))
    assert refused.value.code == "B040"
    assert "baseline" in refused.value.what


@pytest.mark.parametrize("arch", ["gfx1100", "gfx1250", "gfx803"])
def test_an_architecture_without_kernels_is_refused(arch: str) -> None:
    with pytest.raises(InternalError, match=arch):
        emit(forward(arch))


def test_a_type_without_kernels_is_refused() -> None:
    kernel = replace(forward(), signature=Signature(dtype=DType.MXFP4, dtype_out=DType.BF16, hdim=64, hdim_v=64))
    with pytest.raises(InternalError, match="mxfp4"):
        emit(kernel)


def test_another_backends_kernel_is_refused() -> None:
    from fmha_cli.domain.kernel import Algorithm

    with pytest.raises(TypeError, match="not a CK-Tile kernel"):
        emit(replace(forward(), algorithm=Algorithm()))

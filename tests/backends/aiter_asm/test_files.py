"""The facts and the code objects are those of the pinned source."""

from __future__ import annotations

import ctypes
import json
from dataclasses import replace
from pathlib import Path

import pytest

from fmha_cli.backends.aiter_asm import backend
from fmha_cli.backends.aiter_asm.upstream import UPSTREAM
from fmha_cli.backends.hip.argument_check import check_arguments
from fmha_cli.codegen.aiter_asm.facts import facts_of, kernels
from fmha_cli.codegen.aiter_asm.params import AiterForward
from fmha_cli.codegen.struct import ctypes_structure, host_layout
from fmha_cli.domain.arch import arch_document
from fmha_cli.domain.errors import EnvironmentProblem, KernelFailure, UnsupportedError
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.plan import Stage
from fmha_cli.domain.protocols import BuildContext
from tests.support.generators.aiter_asm.tables import forward_rows
from tests.support.referees.aiter_asm.host_code import hsa_folder

ALL = (*kernels("gfx942"), *kernels("gfx950"))
BLOCK = AiterForward(**{name: 0 for name, *_ in host_layout(AiterForward)})


@pytest.fixture(scope="module")
def hsa(shared_cache: Path) -> Path:
    try:
        return hsa_folder(shared_cache)
    except EnvironmentProblem as fault:
        pytest.skip(f"no sources of AITER: {fault.what}")


@pytest.mark.slow
@pytest.mark.ci
def test_the_facts_are_upstreams(hsa: Path) -> None:
    assert arch_document("_aiter_asm.json", "fmha.aiter-asm/1")["forward"] == forward_rows(hsa)


@pytest.mark.slow
@pytest.mark.ci
def test_every_code_object_is_built_and_takes_the_arguments(hsa: Path, shared_cache: Path) -> None:
    for kernel in ALL:
        made = backend.build(Stage(kernel), BuildContext(shared_cache))
        assert made.path.read_bytes() == (hsa.parents[1] / facts_of(kernel).path).read_bytes()
        found = check_arguments(made.path.read_bytes(), kernel, UPSTREAM.symbol(kernel), BLOCK)
        assert found.block == facts_of(kernel).threads
        assert backend.inspect(kernel, made)["lds_bytes"] == found.lds_bytes


@pytest.mark.slow
@pytest.mark.ci
def test_a_code_object_with_other_arguments_is_refused(hsa: Path) -> None:
    other = next((hsa / "gfx942" / "fmha_v3_bwd").glob("bwd_hd128_bf16_a32_rtne.co")).read_bytes()
    with pytest.raises(KernelFailure, match="takes other arguments") as fault:
        check_arguments(other, ALL[0], UPSTREAM.symbol(ALL[0]), BLOCK)
    assert fault.value.code == "H009"


def test_a_kernel_that_upstream_lacks_is_not_built(tmp_path: Path) -> None:
    lacking: KernelSpec = replace(ALL[0], signature=replace(ALL[0].signature, hdim=64))
    with pytest.raises(UnsupportedError, match="no such kernel"):
        backend.build(Stage(lacking), BuildContext(tmp_path, offline=True))


def test_without_the_source_the_build_says_what_to_fetch(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentProblem) as fault:
        backend.build(Stage(ALL[0]), BuildContext(tmp_path, offline=True))
    assert fault.value.code == "S101"


def test_members_of_the_arguments_have_places_of_16_bytes() -> None:
    layout = host_layout(AiterForward)
    assert [start for _, start, _ in layout] == [16 * place for place in range(32)]
    assert ctypes.sizeof(ctypes_structure(AiterForward)) == 512


def test_the_facts_are_json_that_names_no_kernel_twice() -> None:
    rows = arch_document("_aiter_asm.json", "fmha.aiter-asm/1")["forward"]
    assert len({json.dumps([row["arch"], row["file"]]) for row in rows}) == len(rows) == 20

"""``inspect`` of FlashAttention kernels: the figures, their JSON, and the message for a cubin that cannot be read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fmha_cli.backends.cuda.inspect import inspect, summary
from fmha_cli.backends.cuda.tables import CubinExports, read_exports
from fmha_cli.backends.flash_attn.catalogue import family_kernels
from fmha_cli.backends.flash_attn.launches import expect_exports
from fmha_cli.backends.flash_attn.upstream import UPSTREAM
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.codec import to_json
from fmha_cli.domain.errors import KernelFailure
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.plan import Artifact
from fmha_cli.report.document import name_of
from fmha_cli.report.documents.differences import differences_document
from fmha_cli.report.documents.inspect import inspect_document
from fmha_cli.report.documents.inspections import figures_of, inspection_row, inspections_document
from fmha_cli.report.formats import view
from fmha_cli.toolchain.cuda.sass import SassListing, Spills
from tests.support.builds.cubin_tiny import tiny_cubin
from tests.support.fakes.flash_attn.cubins import fake_cubin
from tests.support.schema_checks import validator


@pytest.fixture
def kernel() -> KernelSpec:
    return next(k for k in family_kernels(load_arch("sm_90"), Family.FWD) if k.signature.hdim == 128)


def exports_of(kernel: KernelSpec) -> CubinExports:
    return read_exports(fake_cubin(kernel), kernel.arch, expect_exports(kernel))


def artifact_of(raw: bytes, folder: Path) -> Artifact:
    (folder / "artifact").write_bytes(raw)
    return Artifact(folder / "artifact", "0" * 64, "1" * 64, folder / "log", False, 1.0)


def test_the_figures_of_a_cubin(kernel: KernelSpec, tmp_path: Path) -> None:
    """128 x 64 tiles of fp16 at head dim 128: 64 KiB of shared memory, four warps, 32 registers in this cubin."""
    raw = fake_cubin(kernel)
    found = inspect(UPSTREAM, kernel, artifact_of(raw, tmp_path))
    assert found["registers"] == {"gpr": 32}
    assert (found["shared_bytes"], found["shared_static_bytes"], found["shared_dynamic_bytes"]) == (65536, 0, 65536)
    assert (found["work_group"], found["kernarg_bytes"], found["scratch_bytes"]) == (128, 456, 0)
    assert found["occupancy"] == 3.0
    assert found["occupancy_limits"] == {
        "limited_by": ["shared"], "blocks": 3, "warps": 12, "fraction": 12 / 64, "registers": 16, "shared": 3, "most": 64
    }  # fmt: skip
    assert found["template"] == UPSTREAM.template(kernel)
    assert (found["target"], found["cubin_bytes"]) == ("sm_90", len(raw))
    assert found["compiler"] is None
    assert found["compile_peak_bytes"] is None


CLASSES = dict.fromkeys(("matrix", "shared", "global", "local", "transcendental"), 0) | {"matrix": 96, "shared": 12}
LISTING = SassListing({"HMMA": 96, "LDS": 12}, {"0xabc": 3}, 111, CLASSES, 1776)
NO_SPILLS = Spills(0, 0, 0, 0, True)


def test_unknown_instructions_are_told(kernel: KernelSpec, tmp_path: Path) -> None:
    """The fake cubin's code is 128 zero bytes: eight times an opcode that does not exist."""
    artifact = artifact_of(fake_cubin(kernel), tmp_path)
    found = inspect(UPSTREAM, kernel, artifact)
    assert found["instructions"] is found["matrix_instructions"] is found["instruction_classes"] is None
    assert found["unknown_instructions"] == {"0x0": 8}
    assert found["why"] == "none of the 8 instructions has an opcode that fmha knows"
    shown = view(inspect_document(kernel, found, artifact, "u"))
    assert list(shown.details) == [f"no instruction counts: {found['why']}"]
    some = summary(exports_of(kernel), LISTING, NO_SPILLS)
    assert (some["instructions"], some["unknown_instructions"], some["why"]) == (
        {"HMMA": 96, "LDS": 12},
        {"0xabc": 3},
        None,
    )


def test_the_documents(kernel: KernelSpec) -> None:
    """The documents of one kernel, of many and of two side by side match their schemas."""
    found = summary(exports_of(kernel), replace(LISTING, unknown={}), Spills(2, 1, 24, 4, True))
    assert found["spills"] == {"gpr": 6, "stores": 2, "loads": 1, "store_bytes": 24, "load_bytes": 4}
    assert found["unknown_instructions"] is None
    one = inspect_document(kernel, found, None, "u")
    row = inspection_row(kernel, "u", one)
    assert {key: value for key, value in vars(row.figures).items() if value is not None} == {
        "gpr": 32, "spills": 6, "shared_bytes": 65536, "scratch_bytes": 0, "kernarg_bytes": 456, "work_group": 128,
        "occupancy": 3.0, "limited_by": "shared", "instruction_count": 111, "matrix_instructions": 96,
        "shared_instructions": 12, "global_instructions": 0, "local_instructions": 0, "transcendental_instructions": 0,
        "code_bytes": 1776,
    }  # fmt: skip
    other = inspect_document(kernel, {**found, "registers": {"gpr": 40}}, None, "u")
    for document in (one, inspections_document([row]), differences_document(one, other)):
        validator(name_of(document.schema)).validate(to_json(document))
    marked = [line for line in view(differences_document(one, other)).rows if line[0]]
    assert [line[2:] for line in marked] == [["gpr", "32", "40", "+8"]]
    assert {"gpr", "spills", "shared bytes", "occupancy", "matrix"} <= set(view(inspections_document([row])).headers)
    assert row.figures == figures_of(one)


def test_a_cubin_that_cannot_be_read(kernel: KernelSpec, tmp_path: Path) -> None:
    for raw in (b"", b"not a cubin", fake_cubin(kernel)[:500], tiny_cubin("other", (8,))):
        with pytest.raises(KernelFailure) as caught:
            inspect(UPSTREAM, kernel, artifact_of(raw, tmp_path))
        assert caught.value.code == "B060"
    gone = artifact_of(b"", tmp_path)
    gone.path.unlink()
    with pytest.raises(KernelFailure) as caught:
        inspect(UPSTREAM, kernel, gone)
    assert caught.value.code == "B060"


def test_a_cubin_of_another_layout(kernel: KernelSpec, tmp_path: Path) -> None:
    with pytest.raises(KernelFailure) as caught:
        inspect(UPSTREAM, kernel, artifact_of(fake_cubin(kernel, drift=8), tmp_path))
    assert caught.value.code == "B061"

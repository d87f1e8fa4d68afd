"""Building and inspecting CK-Tile kernels, with a shell script as the compiler: what is compiled and what never is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from fmha_cli.backends.ck_tile import building, inspection
from fmha_cli.backends.ck_tile.backend import CkTileBackend
from fmha_cli.backends.ck_tile.building import CkWorkshop, build_ck, ck_key
from fmha_cli.backends.ck_tile.inspection import NO_OBJDUMP, inspect_ck
from fmha_cli.backends.ck_tile.revisions import BASELINE
from fmha_cli.backends.ck_tile.tree import CkTree, load_known
from fmha_cli.codegen.ck_tile.algorithm import CkAlgorithm
from fmha_cli.discovery.registry import build_registry
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.errors import EnvironmentProblem, ExitCode, KernelFailure, UnsupportedError
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.plan import Edited, Stage
from fmha_cli.domain.protocols import Backend, Batched, BuildContext, Catalogued, DryRun, Keyed
from fmha_cli.report.documents.inspect import inspect_document
from fmha_cli.report.documents.inspections import figures_of
from fmha_cli.sources.homes import look_at
from fmha_cli.toolchain.cache.store import Cache
from fmha_cli.toolchain.rocm.candidates import RocmKind, RocmToolchain
from fmha_cli.toolchain.rocm.compile import COMPILE_BYTES
from tests.support.builds.amdgpu_tiny import Tiny, compiled

pytestmark = pytest.mark.promise(
    "README: Composable Kernel (CK-Tile)", "Kernels are built from pinned sources, and NVRTC needs no GPU."
)

BACKEND = CkTileBackend()
COMPILER = """#!/bin/sh
echo "$@" >> "{folder}/calls"
previous=
for word; do
    if [ "$previous" = -o ]; then out=$word; fi
    previous=$word
done
if [ -f "{folder}/fail" ]; then echo "source.cpp:7:3: error: no member named 'kBlockPerCu'"; exit 1; fi
cp "{folder}/product" "$out"
"""


@dataclass(frozen=True)
class Shop:
    """A compiler that copies ``product`` to its output, or fails while the file ``fail`` exists."""

    folder: Path
    context: BuildContext

    @property
    def calls(self) -> int:
        path = self.folder / "calls"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def with_tree(self, digest: str) -> BuildContext:
        shop = self.context.prepared
        assert isinstance(shop, CkWorkshop)
        return replace(self.context, prepared=replace(shop, tree=replace(shop.tree, digest=digest)))


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    script = tmp_path / "clang++-22"
    script.write_text(COMPILER.format(folder=tmp_path))
    script.chmod(0o755)
    (tmp_path / "product").write_bytes(b"no ELF file")
    toolchain = RocmToolchain(
        argv0=(str(script),),
        version="fake clang 22",
        kind=RocmKind.CLANG,
        rocm_path=tmp_path / "rocm",
        hip_version="7.1.0",
        headers_digest="1" * 64,
        options=(),
        archs=("gfx942",),
    )
    tree = CkTree(tmp_path / "include", None, None, BASELINE, "a test", "2" * 64)
    work = CkWorkshop(Cache(tmp_path / "cache"), toolchain, tree)
    return Shop(tmp_path, BuildContext(tmp_path / "cache", prepared=work))


def kernels(arch: str = "gfx942") -> Iterator[KernelSpec]:
    return iter(BACKEND.kernels(load_arch(arch)))


@pytest.fixture(scope="module")
def kernel() -> KernelSpec:
    return next(k for k in kernels() if k.family is Family.BWD_DOT_DO_O)


def test_it_is_registered_and_implements_the_protocols() -> None:
    found = build_registry().backend("ck_tile")
    for protocol in (Backend, Batched, Catalogued, DryRun, Keyed):
        assert isinstance(found, protocol), protocol
    assert found.dropout_stream == "ck"


def test_what_is_listed_can_be_built() -> None:
    """One kernel of each family and architecture passes every kernel rule. Newer architectures need other revisions."""
    for arch in BACKEND.archs():
        firsts = {kernel.family: kernel for kernel in BACKEND.kernels(load_arch(arch))}
        for kernel in firsts.values():
            assert BACKEND.refusals(kernel) == (), kernel.name
            assert isinstance(kernel.algorithm, CkAlgorithm)
            assert kernel.algorithm.rev == BASELINE
        assert bool(firsts) == (arch in ("gfx90a", "gfx942", "gfx950", "gfx1201"))


def test_a_kernel_is_compiled_once(shop: Shop, kernel: KernelSpec) -> None:
    first = build_ck(Stage(kernel), shop.context)
    again = build_ck(Stage(kernel), shop.context)
    assert (first.cached, again.cached, shop.calls) == (False, True, 1)
    assert first.digest == again.digest == ck_key(Stage(kernel), shop.context).digest
    command = (shop.folder / "calls").read_text()
    assert f"--offload-arch={kernel.arch}" in command
    assert f"-I{shop.folder / 'include'}" in command


def test_other_headers_are_another_key(shop: Shop, kernel: KernelSpec) -> None:
    other = shop.with_tree("3" * 64)
    assert ck_key(Stage(kernel), other).digest != ck_key(Stage(kernel), shop.context).digest
    build_ck(Stage(kernel), shop.context)
    build_ck(Stage(kernel), other)
    assert shop.calls == 2


def test_what_a_rule_refuses_is_never_compiled(shop: Shop) -> None:
    listed = BACKEND.catalogue(load_arch("gfx1201"), "receipt:0", None)
    refused = next(k for k in listed if k.family is Family.BATCH_PREFILL)
    (first, *_) = reasons = BACKEND.refusals(refused)
    with pytest.raises(UnsupportedError) as caught:
        build_ck(Stage(refused), shop.context)
    assert caught.value.code == first.id
    assert caught.value.exit_code is ExitCode.UNSUPPORTED
    assert all(reason.id in str(caught.value.why) for reason in reasons)
    with pytest.raises(UnsupportedError):
        ck_key(Stage(refused), shop.context)
    assert shop.calls == 0


def test_a_kernel_of_a_later_revision_is_never_compiled(shop: Shop) -> None:
    later = BACKEND.revisions()[-1]
    newer = next(iter(BACKEND.catalogue(load_arch("gfx1250"), None, later)))
    with pytest.raises(EnvironmentProblem) as caught:
        build_ck(Stage(newer), shop.context)
    assert (caught.value.code, caught.value.exit_code) == ("B040", ExitCode.ENVIRONMENT)
    assert later in str(caught.value.why)
    assert shop.calls == 0


def test_a_compile_that_fails_keeps_its_log(shop: Shop, kernel: KernelSpec) -> None:
    (shop.folder / "fail").touch()
    with pytest.raises(KernelFailure, match="no member named 'kBlockPerCu'") as caught:
        build_ck(Stage(kernel), shop.context)
    assert Path(str(caught.value.where)).read_text().startswith("$ ")
    (shop.folder / "fail").unlink()
    assert not build_ck(Stage(kernel), shop.context).cached


def test_a_library_without_device_code(shop: Shop, kernel: KernelSpec) -> None:
    artifact = build_ck(Stage(kernel), shop.context)
    with pytest.raises(KernelFailure) as caught:
        inspect_ck(kernel, artifact)
    assert caught.value.code == "B041"


def test_code_for_another_architecture(shop: Shop, kernel: KernelSpec, tmp_path: Path) -> None:
    code, _ = compiled(Tiny(arch="gfx90a"), tmp_path)
    (shop.folder / "product").write_bytes(code)
    with pytest.raises(KernelFailure, match="cannot be read") as caught:
        inspect_ck(kernel, build_ck(Stage(kernel), shop.context))
    assert "gfx90a, not for gfx942" in str(caught.value.why)


def test_the_figures_of_a_kernel(shop: Shop, kernel: KernelSpec, tmp_path: Path) -> None:
    code, said = compiled(Tiny(vgpr=70, lds=2048), tmp_path)
    (shop.folder / "product").write_bytes(code)
    artifact = build_ck(Stage(kernel), shop.context)
    found = vars(figures_of(inspect_document(kernel, inspect_ck(kernel, artifact), artifact)))
    assert found["vgpr"] == int(said["VGPRs"])
    assert found["sgpr"] == int(said["TotalSGPRs"])
    assert found["lds_bytes"] == 2048
    assert found["occupancy"] == int(said["Occupancy"])
    assert found["limited_by"] == "vgpr"
    assert found["work_group"] == 256
    assert found["compiler"] == "fake clang 22"
    assert found["compile_peak_bytes"] is None or found["compile_peak_bytes"] > 1 << 20
    assert found["transcendental_instructions"] >= 1
    assert found["instruction_count"] * 4 <= found["code_bytes"]


def test_without_a_disassembler(
    shop: Shop, kernel: KernelSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, _ = compiled(Tiny(), tmp_path)
    (shop.folder / "product").write_bytes(code)
    artifact = build_ck(Stage(kernel), shop.context)
    monkeypatch.setattr(inspection, "llvm_tool", lambda name, compiler: None)
    found = inspect_ck(kernel, artifact)
    assert found["why"] == NO_OBJDUMP
    assert found["instructions"] is None
    assert found["lds_bytes"] == 0
    json.dumps(found)


@pytest.mark.parametrize("options", [{}, {"compiler": "/opt/other/clang++"}, {"ck-home": "/opt/ck"}])
def test_options_reach_compiler_and_sources(
    options: dict[str, str], shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, object] = {}
    work = shop.context.prepared
    assert isinstance(work, CkWorkshop)

    def tree(root: Path, *, home: str | None, **rest: object) -> CkTree:
        seen["home"] = home
        return work.tree

    def rocm(root: Path, *, environ: dict[str, str], **rest: object) -> RocmToolchain:
        seen["hipcc"] = environ.get("FMHA_HIPCC")
        return work.toolchain

    monkeypatch.setattr(building, "ck_tree", tree)
    monkeypatch.setattr(building, "find_rocm", rocm)
    monkeypatch.setenv("FMHA_HIPCC", "/usr/bin/one")
    made = building.workshop(BuildContext(shop.folder / "cache", options=options))
    assert (made.toolchain, made.tree) == (work.toolchain, work.tree)
    assert seen == {"home": options.get("ck-home"), "hipcc": options.get("compiler", "/usr/bin/one")}


def test_memory_and_preparation(shop: Shop, kernel: KernelSpec) -> None:
    assert BACKEND.compile_bytes(kernel) == COMPILE_BYTES > 2**30
    assert BACKEND.compile_bytes(replace(kernel, family=Family.BWD_DQ_DK_DV)) > COMPILE_BYTES
    assert BACKEND.prepare(shop.context) is shop.context.prepared
    assert BACKEND.build(Stage(kernel), shop.context).cached is False


def test_an_edited_tree_has_kernels_of_its_own(shop: Shop, kernel: KernelSpec) -> None:
    work = shop.context.prepared
    assert isinstance(work, CkWorkshop)
    edited = Edited(base=BASELINE, tree="3" * 64, files=3)
    tree = replace(work.tree, digest=edited.tree, edited=edited)
    there = replace(shop.context, prepared=replace(work, tree=tree))
    pinned, made = build_ck(Stage(kernel), shop.context), build_ck(Stage(kernel), there)
    assert (pinned.edited, made.edited) == (None, edited)
    assert pinned.digest != made.digest
    assert not made.cached
    again = build_ck(Stage(kernel), there)
    assert (again.cached, again.edited) == (True, edited)


@pytest.mark.promise("A compile during which the user's tree changes is not kept.")
def test_what_changes_during_a_compile_is_not_kept(shop: Shop, kernel: KernelSpec, tmp_path: Path) -> None:
    """Neither the library of half-saved headers nor their failure is the kernel's."""
    work = shop.context.prepared
    assert isinstance(work, CkWorkshop)
    header = tmp_path / "include" / "ck_tile" / "core.hpp"
    header.parent.mkdir(parents=True)
    header.write_text("before\n")
    home = look_at(work.cache.layout, {"": header.parent}, load_known())
    there = replace(shop.context, prepared=replace(work, tree=replace(work.tree, digest="4" * 64, home=home)))
    header.write_text("saved meanwhile\n")
    with pytest.raises(EnvironmentProblem) as caught:
        build_ck(Stage(kernel), there)
    assert caught.value.code == "S107"
    assert work.cache.lookup(building.ck_key(Stage(kernel), there)) is None

"""Building the upstream programs: required kernels, upstream's generator for a list, compiling, linking, resuming."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from fmha_cli.backends.ck_tile.parity import building, counterpart
from fmha_cli.backends.ck_tile.parity.building import (
    ProgramWorkshop,
    build_program,
    find_runtime,
    link_flags,
    unit_flags,
)
from fmha_cli.backends.ck_tile.parity.case import BINARIES
from fmha_cli.backends.ck_tile.parity.counterpart import CkCounterpart
from fmha_cli.backends.ck_tile.parity.generating import Listed, generate, list_needed
from fmha_cli.backends.ck_tile.parity.mapping import map_case
from fmha_cli.backends.ck_tile.tree import CkTree, pinned_tree
from fmha_cli.discovery.wanted import Wanted
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.counterpart import Binaries, Mapped, Needs, Program, Progress, UpstreamCase
from fmha_cli.domain.device import Availability, State
from fmha_cli.domain.errors import EnvironmentProblem, KernelFailure
from fmha_cli.domain.phases import Voice
from fmha_cli.parity.compare import Setup, compare
from fmha_cli.parity.programs import make_programs, needs_of
from fmha_cli.parity.suite import load_suite
from fmha_cli.report.documents.parity import ParityOutcome
from fmha_cli.run.request import Request
from fmha_cli.toolchain.cache.root import cache_root
from fmha_cli.toolchain.rocm.candidates import RocmKind, RocmToolchain
from tests.support.fakes.ck_choice import choosing_registry
from tests.support.fakes.example_programs import write_standins
from tests.support.generators.ck_tile.cases import ck_case

NOWHERE = {"ck_tile": Availability(state=State.NO_DEVICE, why="no GPU")}


def all_needs(*cases: UpstreamCase, arch: str = "gfx942") -> dict[Program, Needs]:
    wanted = Wanted(backend="ck_tile", arch=arch)
    return needs_of([map_case(case) for case in cases], choosing_registry(), NOWHERE, wanted)


def needs_for(*cases: UpstreamCase, arch: str = "gfx942") -> dict[Program, Listed]:
    return {program: list_needed(need) for program, need in all_needs(*cases, arch=arch).items()}


def forward(**settings: str) -> UpstreamCase:
    return ck_case("f", Program.FWD, {"b": "2", "h": "2", "s": "128", "d": "128", **settings})


def backward(**settings: str) -> UpstreamCase:
    return ck_case("b", Program.BWD, {"b": "2", "h": "2", "s": "128", "d": "128", **settings})


@pytest.mark.slow
@pytest.mark.ci
def test_the_basic_suite_needs_few_kernels() -> None:
    """Cases that differ only in sizes share a kernel; mask, bias, lse and type need different ones."""
    needs = needs_for(*load_suite("basic", CkCounterpart()).cases())
    assert set(needs) == {Program.FWD}
    found = needs[Program.FWD]
    assert (found.apis, found.arch) == (("fwd",), "gfx942")
    assert 6 <= len(found.names) < 14
    assert len(set(found.names)) == len(found.names)
    for part in ("_bf16_", "_mask_", "_bias_nmask", "_alibi_", "_nmask_lse_"):
        assert any(part in name for name in found.names), part


@pytest.mark.parametrize(
    ("case", "apis", "parts"),
    [
        (forward(num_splits="3"), ("fwd", "fwd_splitkv"), ("fmha_fwd_splitkv_d128", "fmha_fwd_splitkv_combine_d128")),
        (forward(page_block_size="128"), ("fwd", "pagedkv_prefill"), ("fmha_fwd_pagedkv_d128",)),
        (backward(), ("bwd",), ("fmha_bwd_dot_do_o_d128", "fmha_bwd_d128", "fmha_bwd_convert_dq_d128")),
    ],
)
def test_every_stage_is_needed(case: UpstreamCase, apis: tuple[str, ...], parts: tuple[str, ...]) -> None:
    found = needs_for(case)[case.program]
    assert found.apis == apis
    for part in parts:
        assert any(name.startswith(part) for name in found.names), (part, found.names)


def test_a_program_that_validates_dropout_stores_what_it_drew() -> None:
    names = needs_for(backward(p_drop="0.2"))[Program.BWD].names
    assert sum("_dropout_wg16_storerandval_" in name for name in names) == 1
    assert sum("_dropout_wg16_n" in name for name in names) == 1


def test_cases_without_a_kernel_are_counted() -> None:
    found = all_needs(forward(d="512"), forward(), forward(vlayout="c"))[Program.FWD]
    assert (len(found.kernels), found.without) == (1, 1)


@pytest.fixture(scope="session")
def tree(shared_cache: Path) -> CkTree:
    try:
        return pinned_tree(shared_cache, offline=False, notify=lambda notice: None)
    except EnvironmentProblem as error:
        pytest.skip(f"the pinned sources cannot be had: {error.what}")


@pytest.mark.sampled(0, ci="all")
@pytest.mark.parametrize("arch", ["gfx942", pytest.param("gfx950", marks=pytest.mark.slow), "gfx1201"])
def test_the_generator_gives_exactly_the_kernels_of_the_list(tree: CkTree, tmp_path: Path, arch: str) -> None:
    """One call of upstream's generator returns the split-KV, paged, append and plain kernels of the list."""
    assert tree.generator is not None
    before = sorted(p.name for p in tree.generator.rglob("*"))
    cases = [
        forward(), forward(mask="1", prec="bf16"), forward(num_splits="3"), forward(page_block_size="128"),
        forward(b="1", s="64", s_k="128", s_knew="64"),
    ]  # fmt: skip
    needs = needs_for(*cases, arch=arch)[Program.FWD]
    assert len(needs.apis) == 4
    files = generate(tree.generator, needs, tmp_path)
    stems = {path.stem for path in files}
    assert stems - set(needs.names) == {
        "fmha_fwd_api", "fmha_fwd_splitkv_api", "fmha_fwd_appendkv_api", "fmha_fwd_pagedkv_api",
    }  # fmt: skip
    assert sorted(p.name for p in tree.generator.rglob("*")) == before


@pytest.mark.slow
@pytest.mark.ci
def test_the_generator_gives_the_three_stages_of_backward(tree: CkTree, tmp_path: Path) -> None:
    assert tree.generator is not None
    needs = needs_for(backward(p_drop="0.2", bias="a"), backward(mode="1", s="99"))[Program.BWD]
    files = generate(tree.generator, needs, tmp_path)
    assert {path.stem for path in files} - set(needs.names) == {"fmha_bwd_api"}
    api = next(path for path in files if path.stem == "fmha_bwd_api").read_text()
    assert len(re.findall(r"using dq_dk_dv_trait_ =", api)) == sum(n.startswith("fmha_bwd_d128") for n in needs.names)


@pytest.mark.slow
@pytest.mark.ci
def test_a_kernel_that_upstream_does_not_know(tree: CkTree, tmp_path: Path) -> None:
    assert tree.generator is not None
    needs = needs_for(forward())[Program.FWD]
    with pytest.raises(EnvironmentProblem, match="gives no fmha_fwd_d999") as caught:
        generate(tree.generator, replace(needs, names=(*needs.names, "fmha_fwd_d999_gfx9")), tmp_path)
    assert caught.value.code == "Y010"


def test_a_generator_that_fails(tmp_path: Path) -> None:
    (tmp_path / "generate.py").write_text("raise SystemExit('no such thing')")
    (tmp_path / "out").mkdir()
    with pytest.raises(EnvironmentProblem, match="generator failed") as caught:
        generate(tmp_path, needs_for(forward())[Program.FWD], tmp_path / "out")
    assert caught.value.why == "no such thing"


COMPILER = """
import sys
words = sys.argv[1:]
out = words[words.index("-o") + 1]
with open({log!r}, "a") as log:
    log.write("\\x1f".join(words) + "\\n")
if "-c" in words:
    text = open("source.cpp").read()
    if "BREAK ME" in text:
        sys.stderr.write("source.cpp:1: error: broken\\n")
        sys.exit(1)
else:
    sys.stderr.write({says!r})
    if {no_link!r}:
        sys.exit(1)
open(out, "w").write("made")
"""


class Bench:
    """A workshop whose compiler only records how it was called."""

    def __init__(self, folder: Path, *, no_link: bool = False, says: str = "") -> None:
        self.log = folder / "calls"
        program = folder / "compiler"
        program.write_text(f"#!{sys.executable} -IS\n" + COMPILER.format(log=str(self.log), no_link=no_link, says=says))
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        self.example = folder / "example"
        self.example.mkdir(exist_ok=True)
        (self.example / "example_fmha_fwd.cpp").write_text("int main() {}")
        (self.example / "fmha_fwd.hpp").write_text("// header")
        (self.example / "generate.py").write_text(
            "from pathlib import Path\nimport fnmatch\n"
            "def write_blobs(targets, out, apis, filters, optdim, receipt, mask):\n"
            "    for name in ('one_gfx9', 'two_gfx9', 'three_gfx9', 'api'):\n"
            "        if name == 'api' or fnmatch.fnmatch(name.removesuffix('_gfx9'), filters[0]):\n"
            "            (Path(out) / f'{name}.cpp').write_text(f'// {name} for {targets[0]}')\n"
        )
        toolchain = RocmToolchain(
            argv0=(str(program),), version="1", kind=RocmKind.CLANG, rocm_path=folder / "rocm", archs=("gfx942",),
            hip_version="7", headers_digest="h", options=(),
        )  # fmt: skip
        found = CkTree(folder / "include", self.example, self.example, "baseline", "a test", "d")
        root = cache_root(str(folder / "cache"))
        self.shop = ProgramWorkshop(cache_root=root, tree=found, toolchain=toolchain, arch=load_arch("gfx942"))
        self.needs = Listed(Program.FWD, ("one_gfx9", "two_gfx9"), ("fwd", "fwd_splitkv"), "gfx942")

    def calls(self) -> list[list[str]]:
        return [line.split("\x1f") for line in self.log.read_text().splitlines()] if self.log.exists() else []

    def build(self, into: Path | None = None) -> building.Linked:
        return build_program(self.needs, self.shop, into, lambda done, total, what: None)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr(building, "find_runtime", lambda toolchain, environ: None)
    return Bench(tmp_path)


def test_what_is_compiled_and_how_it_is_linked(bench: Bench, tmp_path: Path) -> None:
    made = bench.build(tmp_path / "bin")
    assert made.path == tmp_path / "bin" / "tile_example_fmha_fwd"
    assert made.path.read_text() == "made"
    assert (made.compiled, made.kept, made.runtime) == (5, 0, None)
    *compiles, link = bench.calls()
    assert len(compiles) == 5
    main = [call for call in compiles if any("SPLITKV_API" in word for word in call)]
    assert len(main) == 1
    assert {"-DCK_TILE_FMHA_FWD_SPLITKV_API=1", "-DCK_TILE_FMHA_FWD_APPENDKV_API=0"} <= set(main[0])
    assert len({word for call in compiles for word in call if word.startswith("-cuid=")}) == 4
    assert sum("--offload-arch=gfx942" in call for call in compiles) == 4
    assert "-Wl,--warn-unresolved-symbols" in link
    assert sum(word.endswith(".o") for word in link) == 5
    assert os.listdir(tmp_path / "bin") == ["tile_example_fmha_fwd"]


def test_a_second_build_compiles_only_what_is_new(bench: Bench) -> None:
    first = bench.build()
    assert first.path.parent.parent == bench.shop.layout.root / "upstream" / "bin"
    again = bench.build()
    assert (again.compiled, again.kept, again.path) == (0, 5, first.path)
    bench.needs = replace(bench.needs, names=(*bench.needs.names, "three_gfx9"))
    more = bench.build()
    assert (more.compiled, more.kept) == (1, 5)
    assert more.path != first.path
    (bench.example / "fmha_fwd.hpp").write_text("// another header")
    assert bench.build().compiled == 6


def test_a_file_that_does_not_compile(bench: Bench) -> None:
    """The error names the file and its log. Compiled objects stay, and no partial file is taken for an object."""
    main = bench.example / "example_fmha_fwd.cpp"
    main.write_text("BREAK ME")
    with pytest.raises(KernelFailure, match=r"example_fmha_fwd.cpp did not compile: .*broken") as caught:
        bench.build()
    assert caught.value.code == "Y011"
    assert "error: broken" in Path(str(caught.value.where)).read_text()
    shelf = bench.shop.layout.root / "upstream" / "objects"
    assert len(list(shelf.glob("*.o"))) == 4
    main.write_text("int main() {}")
    assert bench.build().compiled == 1
    assert not list(bench.shop.layout.tmp.iterdir())


def test_a_program_that_does_not_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "find_runtime", lambda toolchain, environ: None)
    with pytest.raises(KernelFailure, match="does not link") as caught:
        Bench(tmp_path, no_link=True, says="ld.lld: error: cannot open nothing.o\n").build(tmp_path / "bin")
    assert "cannot open nothing.o" in str(caught.value.why) or "exit status 1" in str(caught.value.why)
    assert not (tmp_path / "bin" / "tile_example_fmha_fwd").exists()


@pytest.mark.parametrize(
    ("symbol", "fine"), [("hipMalloc", True), ("__hipRegisterFunction", True), ("__truncsfbf2", False)]
)
def test_only_the_symbols_of_hip_may_stay_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, symbol: str, fine: bool
) -> None:
    monkeypatch.setattr(building, "find_runtime", lambda toolchain, environ: None)
    bench = Bench(tmp_path, says=f"ld.lld: warning: undefined symbol: {symbol}\n>>> referenced by x.cpp\n")
    if fine:
        assert bench.build(tmp_path / "bin").path.exists()
        return
    with pytest.raises(KernelFailure, match="does not link") as caught:
        bench.build(tmp_path / "bin")
    assert caught.value.why == f"undefined: {symbol}"
    assert not (tmp_path / "bin" / "tile_example_fmha_fwd").exists()


def test_the_runtime_is_linked_where_there_is_one(bench: Bench, tmp_path: Path) -> None:
    lib = tmp_path / "rocm" / "lib"
    lib.mkdir(parents=True)
    (lib / "libamdhip64.so").touch()
    assert find_runtime(bench.shop.toolchain, {}) == lib / "libamdhip64.so"
    assert link_flags(lib / "libamdhip64.so") == (str(lib / "libamdhip64.so"), f"-Wl,-rpath,{lib}")
    assert find_runtime(replace(bench.shop.toolchain, rocm_path=tmp_path), {"ROCM_PATH": str(tmp_path / "rocm")})


def test_backward_units_have_their_own_flags(bench: Bench) -> None:
    flags = unit_flags(replace(bench.needs, program=Program.BWD), bench.example / "example_fmha_bwd.cpp", bench.shop)
    assert "-DCK_TILE_FLOAT_TO_BFLOAT16_DEFAULT=3" in flags
    assert not any("FMHA_FWD" in flag for flag in flags)


def test_what_has_no_kernel_is_compiled_for_the_host_alone(bench: Bench) -> None:
    names = ("fmha_fwd_api.cpp", "fmha_fwd_splitkv_api.cpp", "fmha_fwd_d64.cpp", "example_fmha_fwd.cpp")
    alone = [name for name in names if "--cuda-host-only" in unit_flags(bench.needs, bench.example / name, bench.shop)]
    assert alone == ["fmha_fwd_api.cpp", "fmha_fwd_splitkv_api.cpp"]


def test_a_program_made_for_these_cases_proves_nothing_about_others(tmp_path: Path) -> None:
    """A program built without a kernel reports "not supported". That is not an agreement."""
    from fmha_cli.discovery.registry import build_registry

    programs = write_standins(tmp_path / "bin")
    binaries = Binaries({p: programs / BINARIES[p] for p in Program}, {})
    request = Request(backend="cpu", cache_root=os.environ["FMHA_CACHE_DIR"])
    case = ck_case("x", Program.FWD, {"prec": "fp8", "b": "1", "h": "1", "s": "16", "d": "32"})
    outcomes: list[ParityOutcome] = []
    for own in (False, True):
        setup = Setup(
            upstream=CkCounterpart(), request=request, registry=build_registry(), binaries=binaries,
            environ={**os.environ, "STANDIN": "unsupported"}, for_these_cases=own,
        )  # fmt: skip
        outcomes += compare([case], setup, on_row=lambda row: None).outcomes
    assert outcomes == [ParityOutcome.AGREE_UNSUPPORTED, ParityOutcome.NOT_COMPARABLE]


def test_both_programs_are_made_as_far_as_cases_need_them(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``--build-upstream`` from end to end, with a compiler that records its calls; nothing is fetched."""
    said: list[str] = []
    given: list[Listed] = []

    def build(needs: Listed, shop: ProgramWorkshop, into: Path | None, progress: Progress) -> building.Linked:
        given.append(needs)
        return build_program(replace(needs, names=("one_gfx9",)), shop, into, progress)

    monkeypatch.setattr(counterpart, "ck_tree", lambda *a, **k: replace(bench.shop.tree, example=None, generator=None))
    monkeypatch.setattr(counterpart, "pinned_tree", lambda *a, **k: bench.shop.tree)
    monkeypatch.setattr(counterpart, "rocm_supply", lambda *a, **k: None)
    monkeypatch.setattr(counterpart, "find_rocm", lambda *a, **k: bench.shop.toolchain)
    monkeypatch.setattr(counterpart, "build_program", build)
    request = Request(backend="ck_tile", arch="gfx942", cache_root=str(tmp_path / "cache"), jobs=1)
    cases = [map_case(case) for case in (forward(), forward(d="512"), forward(vlayout="c"))]

    def make(cases: list[Mapped], request: Request = request) -> Binaries:
        return make_programs(
            cases, CkCounterpart(), request, choosing_registry(), into=tmp_path / "bin", voice=Voice(said.append),
            progress=lambda done, total, what: None,
        )  # fmt: skip

    made = make(cases)
    assert made.found == {Program.FWD: tmp_path / "bin" / "tile_example_fmha_fwd"}
    assert "was not built" in made.missing[Program.BWD]
    assert [(n.program, len(n.names), n.arch) for n in given] == [(Program.FWD, 1, "gfx942")]
    told = "\n".join(said)
    assert "the pinned source has them" in told
    assert "1 of its cases have no kernel here" in told
    assert "without a HIP runtime" in told
    with pytest.raises(EnvironmentProblem) as nothing:
        make(cases[1:])
    assert nothing.value.code == "Y013"
    with pytest.raises(EnvironmentProblem) as nowhere:
        make(cases, replace(request, arch=None))
    assert nowhere.value.code == "E022"


SHIM = """
#include <cstdint>
#include <cstring>
extern "C" __bf16 __truncsfbf2(float);
extern "C" __bf16 __truncdfbf2(double);
static std::uint16_t bits(__bf16 value) { std::uint16_t out; std::memcpy(&out, &value, 2); return out; }
extern "C" std::uint16_t from_float(float value) { return bits(__truncsfbf2(value)); }
extern "C" std::uint16_t from_double(double value) { return bits(__truncdfbf2(value)); }
"""


def test_the_host_builtins_round_to_nearest_even(tmp_path: Path) -> None:
    """Floats agree with ml_dtypes; doubles with exact neighbours, where rounding twice would give wrong results."""
    compiler = shutil.which("clang++-22") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no clang++ here")
    (tmp_path / "shim.cpp").write_text(SHIM)
    made = tmp_path / "shim.so"
    words = ["-x", "c++", "-std=c++20", "-O2", "-shared", "-fPIC", str(building.BUILTINS), str(tmp_path / "shim.cpp")]
    subprocess.run([compiler, *words, "-o", str(made)], check=True, timeout=600)
    library = ctypes.CDLL(str(made))
    from_float, from_double = library.from_float, library.from_double
    from_float.argtypes, from_float.restype = [ctypes.c_float], ctypes.c_uint16
    from_double.argtypes, from_double.restype = [ctypes.c_double], ctypes.c_uint16
    drawn = np.random.default_rng(1).integers(0, 2**32, 20_000, dtype=np.uint32)
    edges = np.array([0, 0x80000000, 0x7F7FFFFF, 0x7F800000, 0xFF800000, 0x3F808000, 0x3F818000, 1], dtype=np.uint32)
    floats = np.concatenate([drawn, edges]).view(np.float32)
    with np.errstate(invalid="ignore"):  # some are NaN
        want = floats.astype(ml_dtypes.bfloat16)
    for value, expected in zip(floats, want, strict=True):
        got = from_float(float(value))
        assert got == int(expected.view(np.uint16)) or (value != value and (got & 0x7FFF) > 0x7F80), value
    low, high = 1.0, 1.0 + 2.0**-7  # neighbours in bf16; the midpoint rounds to the even one, 1.0
    middle = (low + high) / 2
    bits = {low: 0x3F80, high: 0x3F81}
    for value, expected_value in [(middle, low), (middle * (1 + 2.0**-52), high), (middle * (1 - 2.0**-52), low)]:
        assert from_double(value) == bits[expected_value]
        assert from_double(-value) == bits[expected_value] | 0x8000
    for value in floats[:2000]:
        if value == value:
            assert from_double(float(value)) == from_float(float(value))

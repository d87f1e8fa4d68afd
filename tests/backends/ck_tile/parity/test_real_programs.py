"""The real upstream programs, built with the real compiler, run with a HIP runtime that launches nothing.

The reader must understand the output of the programs themselves, not only that of the stand-ins. The tests take about
five minutes.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from fmha_cli.backends.ck_tile.parity.building import ProgramWorkshop, build_program
from fmha_cli.backends.ck_tile.parity.generating import list_needed
from fmha_cli.backends.ck_tile.parity.mapping import map_case
from fmha_cli.backends.ck_tile.parity.reading import read
from fmha_cli.backends.ck_tile.tree import pinned_tree
from fmha_cli.backends.hip.rocm_parts import rocm_supply
from fmha_cli.discovery.wanted import Wanted
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.counterpart import Program, Ran, Reading, Said, UpstreamCase
from fmha_cli.domain.device import Availability, State
from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.parity.programs import needs_of, run_program
from fmha_cli.toolchain.rocm.toolchain import find_rocm
from tests.support.fakes.ck_choice import choosing_registry
from tests.support.generators.ck_tile.cases import ck_case

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3000)]

RUNTIME = Path(__file__).with_name("do_nothing_runtime.cpp")


def forward(**settings: str) -> UpstreamCase:
    return ck_case("f", Program.FWD, {"b": "2", "h": "2", "s": "128", "d": "64", "kname": "1", **settings})


def backward(**settings: str) -> UpstreamCase:
    return ck_case("b", Program.BWD, {"b": "1", "h": "2", "s": "128", "d": "32", "kname": "1", **settings})


BUILT_FOR = [
    forward(),
    forward(mask="b:4,35", iperm="0"),
    backward(),
    backward(p_drop="0.2", mode="1", s="99,30", b="2"),
]

Run = Callable[..., Ran]


@pytest.fixture(scope="module")
def run(shared_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("programs")
    try:
        tree = pinned_tree(shared_cache, offline=False, notify=lambda notice: None)
        supply = rocm_supply(shared_cache, offline=False, notify=lambda notice: None)
        toolchain = find_rocm(shared_cache, parts=supply, notify=lambda notice: None)
    except EnvironmentProblem as error:
        pytest.skip(error.what)
    found = {"ck_tile": Availability(state=State.NO_DEVICE, why="no GPU")}
    wanted = Wanted(backend="ck_tile", arch="gfx942")
    needs = needs_of([map_case(case) for case in BUILT_FOR], choosing_registry(), found, wanted)
    shop = ProgramWorkshop(cache_root=shared_cache, tree=tree, toolchain=toolchain, arch=load_arch("gfx942"), jobs=2)
    made = {p: build_program(list_needed(n), shop, folder, lambda done, total, what: None) for p, n in needs.items()}
    if any(program.runtime is not None for program in made.values()):
        pytest.skip("a HIP runtime is here: the programs are linked to it")
    runtime = folder / "runtime.so"
    include = toolchain.rocm_path / "include"
    words = [
        "-shared",
        "-fPIC",
        "-std=c++17",
        "-D__HIP_PLATFORM_AMD__=1",
        f"-I{include}",
        str(RUNTIME),
        "-o",
        str(runtime),
    ]
    subprocess.run([*toolchain.argv0, *words], check=True, timeout=300)

    def run(case: UpstreamCase, *, preload: bool = True, **variables: str) -> Ran:
        env = {**os.environ, **variables, **({"LD_PRELOAD": str(runtime)} if preload else {})}
        return run_program(made[case.program].path, case.argv(), env, 120)

    return run


def said(run: Run, case: UpstreamCase, **variables: str) -> Reading:
    return read(run(case, **variables), case)


@pytest.mark.parametrize("case", [forward(), backward()], ids=["fwd", "bwd"])
def test_without_a_runtime_there_is_no_device(run: Run, case: UpstreamCase) -> None:
    assert read(run(case, preload=False), case).said is Said.NO_DEVICE


def test_a_launch_that_does_nothing_is_a_wrong_result(run: Run) -> None:
    """Every element is 0 instead of the reference value: ``valid:n``, exit code 254, error messages on stderr."""
    found = said(run, forward())
    assert (found.said, found.ms) == (Said.WRONG, 0.025)
    assert "Incorrect results" in found.why
    assert len(found.kernels) == 1
    windowed = said(run, forward(mask="b:4,35", iperm="0"))
    assert (windowed.said, len(windowed.kernels)) == (Said.WRONG, 1)


def test_zeros_pass_with_a_launch_that_does_nothing(run: Run) -> None:
    """The real line of a pass. An unknown ``-init`` gives the program no data; ``mapping`` refuses such a case."""
    case = forward(init="zeros", mask="b:4,35", iperm="0")
    assert said(run, case).said is Said.VALID
    assert map_case(case).reasons


def test_the_backward_program(run: Run) -> None:
    found = said(run, backward())
    assert (found.said, len(found.kernels)) == (Said.WRONG, 3), found
    assert said(run, backward(deterministic="1")).said is Said.UNSUPPORTED
    assert said(run, backward(dbias="1")).said is Said.UNSUPPORTED
    assert said(run, backward(init="zeros")).said is Said.UNSUPPORTED


def test_the_backward_program_falls_over_wrong_random_values(run: Run) -> None:
    """A wrong dropout ends in a signal, which is not a verdict.

    The program leaves its first loop over the sequences at once. Its second loop reads what the first did not store
    (``fmha_bwd_runner.hpp``).
    """
    dropped = said(run, backward(p_drop="0.2", mode="1", s="99,30", b="2"))
    assert dropped.said is Said.CRASHED, dropped
    assert dropped.line is not None
    assert "_storerandval_" in dropped.line


def test_runs_that_are_timed(run: Run) -> None:
    for case in (forward(v="0"), backward(v="0")):
        found = read(run(case), case, validated=False)
        assert (found.said, found.ms) == (Said.UNCHECKED, 0.025)


@pytest.mark.parametrize(
    ("case", "meaning"),
    [
        (forward(d="256"), Said.UNSUPPORTED),
        (forward(bias="e"), Said.UNSUPPORTED),
        (forward(h="3", h_k="2"), Said.UNSUPPORTED),
        (forward(p_drop="1.5"), Said.UNSUPPORTED),
        (forward(prec="fp9"), Said.UNSUPPORTED),
        (forward(num_splits="3"), Said.IGNORED),
        (forward(page_block_size="128"), Said.IGNORED),
        (forward(s_knew="5"), Said.IGNORED),
        (forward(rotary_dim="16"), Said.IGNORED),
        (forward(cache_batch_idx="1"), Said.IGNORED),
        (forward(mask="q"), Said.USAGE),
        (forward(bias="q"), Said.USAGE),
        (ck_case("x", Program.FWD, {"sideways": "1"}), Said.USAGE),
        (ck_case("x", Program.BWD, {"lse": "1"}), Said.USAGE),
    ],
    ids=lambda value: " ".join(value.argv()) if isinstance(value, UpstreamCase) else value.value,
)
def test_what_else_the_programs_say(run: Run, case: UpstreamCase, meaning: Said) -> None:
    found = said(run, case)
    assert found.said is meaning, found


def test_not_supported_for_want_of_a_device(run: Run) -> None:
    assert said(run, forward(), NO_GPU="1").said is Said.NO_DEVICE


LINES = [
    forward(v="0"), forward(v="0", mask="b:4,35", iperm="0"), forward(v="0", prec="fp16", operm="0", mode="1", s="99,128"),
    forward(bias="a:1"), forward(bias="e:2", lse="1", p_drop="0.2"), forward(mask="xt:7"), forward(mask="xb:-1"),
    forward(prec="bf16", init="ui"), backward(prec="bf16", init="tf"), forward(mask="t"), forward(mask="g:3,4"), forward(mode="1", s="99,30", s_kpad="128", vlayout="c", scale_s="0.5"),
    forward(q_eff_lens="1,2", kv_eff_lens="3,4"), forward(prec="fp8", squant="1"), forward(prec="bf16", h="4", h_k="2"),
    backward(v="0"), backward(bias="e:1", dbias="1"), backward(mask="t:3,4", deterministic="1", operm="0", scale="2"),
]  # fmt: skip


@pytest.mark.parametrize("case", LINES, ids=lambda case: " ".join(case.argv()))
def test_the_settings_in_the_line_are_understood(run: Run, case: UpstreamCase) -> None:
    """All that the program prints about a case is recognised as the settings of the case."""
    found = read(run(case), case, validated=case.value("v") != "0")
    assert found.line is not None, found
    assert found.said is not Said.OTHER, found
    changed = ck_case("x", case.program, {**case.settings, "b": "7"})
    assert read(run(case), changed, validated=case.value("v") != "0").said is Said.OTHER

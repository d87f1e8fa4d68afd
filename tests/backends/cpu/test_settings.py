"""Settings that depend on the processor: facts, else a measurement; and kernels that are right with all of them."""

from __future__ import annotations

import shutil
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from fmha_null.kernels import null_kernel

from fmha_cli import api
from fmha_cli.backends.cpu import settings
from fmha_cli.backends.cpu.arch_detect import ARCHS, detect
from fmha_cli.backends.cpu.arguments import Arguments
from fmha_cli.backends.cpu.backend import CpuBackend
from fmha_cli.backends.cpu.inspection import inspect_library
from fmha_cli.backends.cpu.kernels import algorithm_of, cpu_kernels
from fmha_cli.backends.cpu.settings import (
    BLOCK,
    FAR,
    NEAR,
    PAGES,
    TURNS,
    _fill_memory,
    choose_settings,
    default_settings,
    dense,
    measure_settings,
    measurements_of,
    worth_measuring,
)
from fmha_cli.codegen.abi import FmhaCpuArgs
from fmha_cli.codegen.cpu.algorithm import LoopKind
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.measuring import Tunable
from fmha_cli.domain.plan import Stage
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.processor import Processor, microarchitectures, this_processor
from fmha_cli.domain.protocols import BuildContext
from fmha_cli.domain.settings import Settings, SettingsFrom
from fmha_cli.domain.verdict import Verdict
from fmha_cli.run.supervisor import Supervisor
from tests.support.fakes.software_tiles import WHOLE
from tests.support.generators.cpu.cases import BEST, AttentionCase, Load, best_and_tiles, complaints, make_data, run

DEVICE = DeviceFacts(id="cpu", archs=("x86_64_v4_bf16",), llc_bytes=32 << 20)


def kernel(kind: LoopKind, arch: str = "x86_64_v4_bf16", dtype: str = "fp32") -> KernelSpec:
    found = (k for k in cpu_kernels(load_arch(arch)) if k.signature.dtype.value == dtype)
    return next(k for k in found if algorithm_of(k).kind is kind)


def processor(name: str | None) -> Processor:
    return Processor(vendor="", family=None, model=None, name="A CPU", microarchitecture=name)


def test_the_backend_is_tunable() -> None:
    assert isinstance(CpuBackend(), Tunable)


@pytest.mark.parametrize(
    ("kind", "name", "wanted"),
    [
        (LoopKind.DECODE, "zen4", Settings(values={NEAR: 2048, FAR: 16384, PAGES: 1}, source=SettingsFrom.FACTS)),
        (LoopKind.DECODE, "zen5", Settings(values={NEAR: 8192, FAR: 0, PAGES: 0}, source=SettingsFrom.FACTS)),
        (
            LoopKind.DECODE,
            "sapphire-rapids",
            Settings(values={NEAR: 8192, FAR: 0, PAGES: 0}, source=SettingsFrom.KERNEL),
        ),
        (LoopKind.DECODE, None, Settings(values={NEAR: 8192, FAR: 0, PAGES: 0}, source=SettingsFrom.KERNEL)),
        (LoopKind.PREFILL, "zen4", Settings(values={BLOCK: 384, TURNS: 1}, source=SettingsFrom.FACTS)),
        (LoopKind.PREFILL, None, Settings(values={BLOCK: 384, TURNS: 1}, source=SettingsFrom.KERNEL)),
    ],
)
def test_facts_decide_where_there_are_any(kind: LoopKind, name: str | None, wanted: Settings) -> None:
    assert default_settings(kernel(kind), processor(name)) == wanted


@pytest.mark.parametrize(
    ("kind", "line", "worth"),
    [
        (LoopKind.DECODE, "-b 4 -H 8 -s 1 --seqlen-k 8192 --dtype fp32", True),
        (LoopKind.DECODE, "-b 2 -H 8 -s 1 --seqlen-k 8192 --dtype bf16", True),
        (LoopKind.DECODE, "-b 1 -H 8 -s 1 --seqlen-k 4096 --dtype fp32", False),
        (LoopKind.PREFILL, "-H 1 -s 1024 --dtype fp32", True),
        (LoopKind.PREFILL, "-H 1 -s 1023 --dtype fp32", False),
    ],
)
@pytest.mark.parametrize("llc", [1 << 20, 32 << 20, 480 << 20])
def test_a_small_problem_is_not_worth_a_measurement(kind: LoopKind, line: str, worth: bool, llc: int) -> None:
    """Whatever the last-level cache holds: that of a server can be as slow as memory."""
    assert worth_measuring(Problem.from_cli(line), kernel(kind), replace(DEVICE, llc_bytes=llc)) is worth


@pytest.mark.parametrize("kind", [LoopKind.DECODE, LoopKind.PREFILL])
def test_the_kernels_own_settings_are_tried_first_and_each_once(kind: LoopKind) -> None:
    measured, own = measurements_of(kernel(kind), DEVICE, 2), default_settings(kernel(kind), processor(None))
    assert own is not None
    assert {name: value for _, tried in measured for name, value in tried[0].items()} == own.values
    for problem, tried in measured:
        assert len({tuple(values.items()) for values in tried}) == len(tried) > 1
        assert worth_measuring(problem, kernel(kind), DEVICE)
    assert [problem.paged for problem, _ in measured] == ([False, True] if kind is LoopKind.DECODE else [False])


def test_the_facts_of_every_row_are_settings_of_every_forward_kernel() -> None:
    kernels = [one for arch in ARCHS for one in cpu_kernels(load_arch(arch))]
    members = {name for _, names, *_ in FmhaCpuArgs.rows for name in names.split()}
    for row, one in product(microarchitectures(), kernels):
        found = default_settings(one, processor(row.name))
        if algorithm_of(one).kind in (LoopKind.BACKWARD, LoopKind.COMBINE, LoopKind.APPEND):
            assert found is None
            continue
        assert found is not None
        assert set(found.values) <= members
        assert all(isinstance(value, int) and value >= 0 for value in found.values.values()), (row.name, one.name)
        assert found.values.get(BLOCK, 0) <= algorithm_of(one).block_k
        assert found.values.get(TURNS, 1) >= 1
        assert all(found.values.get(name, 0) % 64 == 0 for name in (NEAR, FAR)), f"{row.name}: not whole cache lines"


def test_planted_a_fact_that_is_no_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fact without one of its numbers is not taken for 0."""
    (zen4,) = (row for row in microarchitectures() if row.name == "zen4")
    half = replace(zen4, facts={"decode_prefetch": {"value": {"near": 64}, "source": "here"}})
    monkeypatch.setattr(settings, "microarchitecture", lambda processor: half)
    with pytest.raises(KeyError, match="far"):
        default_settings(kernel(LoopKind.DECODE), processor("zen4"))


@pytest.mark.promise("Settings of CPU kernels come from sourced facts, or from a measurement despite noise.")
def test_noise_moves_nothing() -> None:
    tried = [{NEAR: 1}, {NEAR: 2}, {NEAR: 3}]
    assert choose_settings(tried, [[100, 101, 99], [97, 96, 98], [120, 80, 121]]) == {NEAR: 1}  # one lucky round
    slower_from_round_3 = [100, 100, 130, 130, 130], [98, 98, 98, 128, 128], [200] * 5
    assert choose_settings(tried, [*slower_from_round_3]) == {NEAR: 1}
    assert choose_settings(tried, [[100, 101, 99], [97, 96, 98], [90, 94, 200]]) == {NEAR: 3}


@pytest.mark.parametrize("kind", [LoopKind.DECODE, LoopKind.PREFILL])
def test_the_measurement_runs_with_the_kernel_itself(
    kind: LoopKind, shared_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "LEAST_BYTES", 1 << 20)
    monkeypatch.setattr(settings, "MOST_BYTES", 1 << 20)
    monkeypatch.setattr(settings, "LONG", 128)
    monkeypatch.setattr(settings, "MEASURED_KEYS", 512)
    one = kernel(kind, WHOLE[0])
    artifact = CpuBackend().build(Stage(one), BuildContext(cache_root=shared_cache))
    measured = measurements_of(one, detect(), 1)
    found = measure_settings(artifact.path, one, 1)
    for _, tried in measured:
        assert {name: found.pop(name) for name in tried[0]} in tried
    assert found == {}


def test_the_measurement_of_pages_visits_each_page_once() -> None:
    ((problem, _),) = (one for one in measurements_of(kernel(LoopKind.DECODE), DEVICE, 1) if one[0].paged)
    small = Problem.from_cli("-b 3 -H 8 -s 1 --kv-cache paged:16 --cache-seqlens 64 --dtype fp32")
    assert problem.kv_cache == small.kv_cache
    tensors, size = dense(small)
    table = tensors["block_table"]
    arena = _fill_memory(small, tensors, size)
    pages = np.frombuffer(arena, np.int32, 12, table.offset)
    assert sorted(pages) == list(range(12)) != list(pages)
    assert set(bytes(arena[: table.offset])) <= {0x3C}


@pytest.mark.slow
@pytest.mark.ci
def test_the_worker_measures(shared_cache: Path) -> None:
    one = kernel(LoopKind.PREFILL, WHOLE[0])
    artifact = CpuBackend().build(Stage(one), BuildContext(cache_root=shared_cache))
    with Supervisor() as supervisor:
        found = supervisor.settings("fmha_cli.backends.cpu", "cpu", artifact, one.name, 1)
        assert found in measurements_of(one, detect(), 1)[0][1]
        with pytest.raises(EnvironmentProblem, match="cannot be measured") as fault:
            supervisor.settings("fmha_null", "null", artifact, null_kernel(DType.FP32, Family.FWD).name, 1)
        assert (fault.value.code, "no settings" in str(fault.value.why)) == ("X025", True)
        artifact.path.with_name("broken.so").write_bytes(b"not a library")
        broken = replace(artifact, path=artifact.path.with_name("broken.so"))
        with pytest.raises(EnvironmentProblem, match="cannot be measured"):
            supervisor.settings("fmha_cli.backends.cpu", "cpu", broken, one.name, 1)


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize(("kind", "hinted"), [(LoopKind.DECODE, True), (LoopKind.PREFILL, False)])
def test_decode_has_a_loop_for_both_hints(kind: LoopKind, hinted: bool, shared_cache: Path) -> None:
    """Seen in the disassembly: hints into the second-level cache, fewer than those into the first, which both loops have."""
    arch = next((name for name in WHOLE if name.startswith("x86")), None)
    if arch is None or shutil.which("objdump") is None:
        pytest.skip("no x86 kernels, or no objdump")
    artifact = CpuBackend().build(Stage(kernel(kind, arch)), BuildContext(cache_root=shared_cache))
    counts = cast(dict[str, int], inspect_library(artifact.path)["instructions"])
    assert (0 < counts.get("prefetcht1", 0) < counts.get("prefetcht0", 0)) is hinted


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
def test_decode_gives_the_same_bits_with_every_hint(dtype: str, load: Load) -> None:
    case = AttentionCase(dtype, heads=4, hdim=72, q_len=(3, 3), k_len=(300, 17), capacity=300, right=0, threads=1)
    make_data(case, np.random.default_rng(3))
    library, results = load(BEST, dtype, "decode"), []
    for near, far in ((-1, 0), (0, 0), (8192, 0), (2048, 8192), (0, 4096), (1 << 20, 1 << 20)):
        run(library, case, prefetch_near=near, prefetch_far=far)
        results.append(case.data["o_buffer"].tobytes())
    assert complaints(case) == []
    assert len(set(results)) == 1


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_prefill_is_right_with_every_block(dtype: str, load: Load) -> None:
    case = AttentionCase(dtype, hdim=40, hdim_v=24, q_len=(60,), k_len=(700,), capacity=700, right=0, softcap=20.0)
    make_data(case, np.random.default_rng(4))
    for keys in (0, 1, 7, 100, 10**6):
        case.data["o"][...] = np.nan
        run(load(BEST, dtype, "prefill"), case, block_keys=keys)
        assert complaints(case) == [], keys


TURNING = {
    "plain": {},
    "causal": {"right": 0},
    "causal from the top": {"right": 0, "top_left": True, "k_len": (90,), "capacity": 90},
    "window and sink": {"left": 40, "right": 10, "sink": 9, "softcap": 20.0},
    "only a sink": {"left": -500, "right": 600, "sink": 3},
    "packed": {"packed": True, "q_len": (200, 0, 33, 129), "k_len": (300, 5, 0, 700), "capacity": 0, "right": 0},
    "rows far apart": {"bshd": True, "heads": 32, "kv_heads": 32, "right": 0},
    "a group's heads": {"kv_heads": 2, "dropout": 0.3, "alibi": 1},
    "pages": {"page": 16, "k_len": (411, 7), "q_len": (260, 260), "right": 0, "sink_logits": True},
}


@pytest.mark.sampled(2, ci="all")
@pytest.mark.parametrize(("arch", "dtype"), best_and_tiles())
@pytest.mark.parametrize("name", TURNING)
def test_prefill_gives_the_same_bits_however_many_tiles_take_turns(
    name: str, arch: str, dtype: str, load: Load
) -> None:
    one = {
        "heads": 8,
        "kv_heads": 8,
        "hdim": 40,
        "hdim_v": 24,
        "q_len": (270,),
        "k_len": (411,),
        "capacity": 411,
        "threads": 1,
    }
    case, results = AttentionCase(dtype, **{**one, **TURNING[name]}), []
    make_data(case, np.random.default_rng(5))
    for turns in (0, 1, 2, 3, 5, 10**6):
        case.data["o"][...] = case.data["lse"][...] = np.nan
        run(load(arch, dtype, "prefill"), case, query_tiles=turns)
        results.append(case.data["o_buffer"].tobytes() + case.data["lse"].tobytes())
    assert complaints(case) == []
    assert len(set(results)) == 1


def test_settings_reach_the_argument_block() -> None:
    problem = Problem.from_cli("-b 1 -H 1 -s 1 --seqlen-k 8 -d 8 --dtype fp32")
    tensors, size = dense(problem)
    assert size >= problem.bytes()
    own = Arguments(FmhaCpuArgs, problem, tensors, 4096, 1).block
    given = Arguments(FmhaCpuArgs, problem, tensors, 4096, 1, {FAR: 4096, NEAR: 1024, TURNS: 4}).block
    assert (own.prefetch_near, own.prefetch_far, own.block_keys, own.query_tiles) == (-1, 0, 0, 0)
    assert (given.prefetch_near, given.prefetch_far, given.block_keys, given.query_tiles) == (1024, 4096, 0, 4)


@pytest.mark.slow
@pytest.mark.ci
def test_planted_a_setting_that_no_kernel_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings of a row reach its kernel through the worker: one that the argument block does not have fails there."""
    problem = Problem.from_cli("-H 1 -s 8 -d 8 --dtype fp32")
    (good,) = api.run(problem)
    assert good.verdict is Verdict.PASSED
    assert good.settings == default_settings(kernel(LoopKind.DECODE, WHOLE[0]), this_processor())
    planted = Settings(values={"nobody": 1}, source=SettingsFrom.FACTS)
    monkeypatch.setattr(CpuBackend, "default_settings", lambda self, kernel, device: planted)
    (row,) = api.run(problem)
    assert row.verdict is Verdict.LAUNCH_FAILED
    assert row.settings == planted
    assert "'nobody'" in row.notes[0]

"""The walk on an emulated device: selected by name only, watched regions, findings as verdicts, counts, no times."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from importlib.metadata import EntryPoint
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fmha_null import NullBackend

from fmha_cli import api, plugin
from fmha_cli.discovery.registry import Registry, build_registry
from fmha_cli.domain.codec import from_json, to_json
from fmha_cli.domain.decision import KNOWN, Decision, Supported
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.emulation import Finding, FindingKind, Region, merged, summed
from fmha_cli.domain.errors import EnvironmentProblem, UsageError
from fmha_cli.domain.phases import Voice
from fmha_cli.domain.verdict import Verdict
from fmha_cli.oracle.fills import fill
from fmha_cli.report.documents.report import report_document
from fmha_cli.report.parts import NO_ENVIRONMENT
from fmha_cli.report.record import Record
from fmha_cli.run import records
from fmha_cli.run.arena import Arena
from fmha_cli.run.baseline import load_baseline
from fmha_cli.run.builds import build_context, emulation_of
from fmha_cli.run.checks import FINDINGS_NAMED, hazards
from fmha_cli.run.job import Emulation, WorkerJob
from fmha_cli.run.layout import layout_of
from fmha_cli.run.request import Request
from fmha_cli.run.supervisor import Supervisor
from tests.support.fakes import emulator as fake_emulator
from tests.support.fakes.emulator import ID
from tests.support.fixtures.emulated import Sees, Told

PROBLEM = api.Problem.from_cli("-H 2 -s 16 -d 8 --dtype fp16")
ENTRY = EntryPoint(name="paper-emulator", value=fake_emulator.__name__, group="fmha")


def run(command: str = "run", *problems: api.Problem, **options: object) -> tuple[Record, ...]:
    return api.run(*(problems or (PROBLEM,)), command=command, backend="null", device=ID, **options)


def test_a_row_says_where_it_ran_and_carries_counts_and_no_time(emulator: Told) -> None:
    (row,) = run()
    assert (row.verdict, row.device, row.findings) == (Verdict.PASSED, ID, ())
    assert row.measurement is None
    assert row.executed is not None
    assert [counts.launches for counts in row.executed] == [1]
    data = row.to_dict()
    assert data["stages"][0]["time_ns"] is None
    assert Record.from_dict(json.loads(json.dumps(data))) == row
    assert f"--device {ID}" in row.repro


def test_rows_of_other_devices_say_that_nobody_looked(emulator: Told) -> None:
    (row,) = api.run(PROBLEM, backend="null")
    assert (row.findings, row.executed, row.device) == (None, None, "null")
    assert row.measurement is not None
    assert emulator("attach") == []


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("backend", ["auto", "null"])
def test_no_emulated_device_is_chosen_without_being_named(emulator: Told, backend: str) -> None:
    problem = api.Problem.from_cli("-H 1 -s 16 -d 32 --dtype fp32")
    registry = api.build_registry()
    assert ID in {d.id for e in registry.emulators.values() for d in e.devices()}
    trace = api.explain(problem, registry=registry, backend=backend)
    assert trace.chosen is not None
    (row,) = api.run(problem, registry=registry, backend=backend)
    assert not (row.device or "").startswith("emu:")


HAZARDS = [kind.value for kind in FindingKind if kind is not FindingKind.OUT_OF_BOUNDS]
OUTSIDE = ["out-of-bounds"]
FIRST, OTHERS = HAZARDS[:FINDINGS_NAMED], HAZARDS[FINDINGS_NAMED:]
"""All hazards, in as few launches as name each of them."""
FINDINGS = [FIRST, OTHERS, *([kind] for kind in HAZARDS), OUTSIDE, ["lds-race", *OUTSIDE]]
OFTEN = [("run", FIRST), ("validate", OTHERS), ("run", OUTSIDE), ("validate", ["lds-race", *OUTSIDE])]
"""In the default run hazards are found together, since each launch costs a worker."""


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize(
    ("command", "kinds"),
    [
        pytest.param(*one, marks=[] if one in OFTEN else pytest.mark.slow)
        for one in product(("run", "validate"), FINDINGS)
    ],
)
def test_findings_become_the_verdict(emulator: Told, sees: Sees, command: str, kinds: Sequence[str]) -> None:
    """The findings decide even though the kernel's numbers are right."""
    sees(*kinds)
    row = run(command, fills=("normal",))[0]
    assert row.verdict is (Verdict.OUT_OF_BOUNDS if "out-of-bounds" in kinds else Verdict.HAZARD)
    assert row.verdict.exit_code == 1
    assert sorted(f.kind for f in row.findings or ()) == sorted(kinds)
    assert all(any(kind in note for note in row.notes) for kind in kinds)


def test_of_many_findings_each_kind_is_named() -> None:
    kinds = [*[FindingKind.MISSING_FENCE] * (FINDINGS_NAMED + 3), FindingKind.UNINITIALISED_REGISTER]
    found = [Finding(kind=kind, kernel="k", instruction="i", address=at, text="t") for at, kind in enumerate(kinds)]
    ((_, lines),) = hazards(found)
    assert [line.split()[0] for line in lines[:3]] == ["missing-fence", "uninitialised-register", "missing-fence"]
    assert lines[FINDINGS_NAMED:] == ["and 4 more places"]


def test_a_hazard_comes_with_the_known_faults_that_cause_its_findings(
    emulator: Told, sees: Sees, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = [f"{kind}: it reads too early (https://example.org/1)" for kind in ("lds-race", "missing-wait")]
    faults += ["it is slow (https://example.org/2)"]
    decide = NullBackend.decide

    def noted(self: NullBackend, problem: api.Problem, device: DeviceFacts) -> Iterable[Decision]:
        for one in decide(self, problem, device):
            yield replace(one, note=KNOWN.join((one.note, *faults))) if isinstance(one, Supported) else one

    monkeypatch.setattr(NullBackend, "decide", noted)
    assert run()[0].notes == ()
    sees("lds-race")
    first, *others = run(fills=("normal",))[0].notes
    assert (first, len(others)) == (f"KNOWN: {faults[0]}", 1)
    sees("shared-race")
    assert len(run(fills=("normal",))[0].notes) == 1
    sees("out-of-bounds")
    assert [note[:8] for note in run(fills=("normal",))[0].notes[:3]] == ["KNOWN: l", "KNOWN: m", "KNOWN: i"]


@pytest.mark.parametrize(
    ("numbers", "named"), [(Verdict.PASSED, ("lds-race: b",)), (Verdict.WRONG, ("a", "lds-race: b"))]
)
def test_a_hazard_with_wrong_numbers_comes_with_all_known_faults(numbers: Verdict, named: tuple[str, ...]) -> None:
    kernel: Any = None
    decision = Supported(kernel, (0,), f"order{KNOWN}a{KNOWN}lds-race: b")
    finding = SimpleNamespace(kind=FindingKind.LDS_RACE)
    outcome: Any = SimpleNamespace(
        verdict=Verdict.HAZARD, comparisons=[SimpleNamespace(verdict=numbers)], findings=[finding]
    )
    assert records._known(decision, outcome) == named


@pytest.mark.parametrize(
    ("instruction", "shown"),
    [
        ("wgmma.x {%f1,   %f2,  %f3}, %rd1,  p, 1;", "wgmma.x {%f1 ... %f3}, %rd1, p, 1;"),
        ("mma.y {%f1, %f2}, {%r1,%r2,%r3,%r4}, {%f1, %f2};", "mma.y {%f1, %f2}, {%r1 ... %r4}, {%f1, %f2};"),
        ("ds_read_b32 v0, v1", "ds_read_b32 v0, v1"),
    ],
)
def test_the_line_of_a_finding_has_the_ends_of_a_long_list_of_registers(instruction: str, shown: str) -> None:
    found = Finding(kind=FindingKind.LDS_RACE, kernel="k", instruction=instruction, address=16, text="lane 0")
    assert found.line() == f"lds-race at 0x10, {shown}: lane 0 (once)"


@pytest.mark.slow
@pytest.mark.ci
def test_a_finding_of_a_later_run_counts_too(emulator: Told, sees: Sees) -> None:
    sees("lds-race", launch=1)
    (row, *_) = run("validate", fills=("normal",), repeats=2)
    assert row.verdict is Verdict.HAZARD
    (once,) = run("run")
    assert once.verdict is Verdict.PASSED


@pytest.mark.slow
@pytest.mark.ci
def test_places_are_listed_once(emulator: Told, sees: Sees) -> None:
    sees("missing-wait", "missing-wait")
    (row, *_) = run("validate", fills=("normal", "coded"), repeats=2)
    assert [f.count for f in row.findings or ()] == [8]


@pytest.mark.slow
@pytest.mark.ci
def test_a_wrong_kernel_with_a_hazard_is_a_hazard(emulator: Told, sees: Sees) -> None:
    """The hazard is the cause, and the wrong number its effect."""
    zeros = next(k.name for k in api.list_kernels("null", backend="null") if "behaviour=zeros" in k.name)
    fp32 = api.Problem.from_cli("-H 1 -s 16 -d 8 --dtype fp32")
    assert run("run", fp32, kernel=zeros)[0].verdict is Verdict.WRONG
    sees("uninitialised-lds")
    row = run("run", fp32, kernel=zeros)[0]
    assert row.verdict is Verdict.HAZARD
    assert row.comparisons


@pytest.mark.slow
@pytest.mark.ci
def test_checks_can_be_switched_off(emulator: Told, sees: Sees) -> None:
    sees("lds-race")
    (row,) = run(emu_checks=False)
    assert row.verdict is Verdict.PASSED
    assert "--no-emu-checks" in row.repro
    assert [call["options"]["checks"] for call in emulator("attach")] == [False]


def test_a_launch_that_stopped_says_why(emulator: Told, sees: Sees) -> None:
    """The emulator's message is shown, whatever the runtime's error number means."""
    sees("missing-wait", fault="v_frobnicate_b32 at 0x40 of paper_kernel is not implemented")
    kernel = next(k.name for k in api.list_kernels("null", backend="null") if "launch_error" in k.name)
    (row,) = run("run", api.Problem.from_cli("-H 1 -s 16 -d 8 --dtype fp32"), kernel=kernel)
    assert row.verdict is Verdict.LAUNCH_FAILED
    assert any("v_frobnicate_b32" in note for note in row.notes)
    assert [f.kind for f in row.findings or ()] == ["missing-wait"]


@pytest.mark.slow
@pytest.mark.ci
def test_the_arena_is_watched_tensor_by_tensor(emulator: Told) -> None:
    run("validate", fills=("normal",), repeats=1)
    watched = emulator("watch")
    layout = layout_of(PROBLEM, gaps=True)
    assert watched[0]["size"] == layout.size
    expected = [[s.name, s.start, s.end, s.name not in ("q", "k", "v")] for s in layout.slots]
    assert watched[0]["regions"] == expected
    ends = [region[2] for region in expected[:-1]]
    starts = [region[1] for region in expected[1:]]
    assert all(start - end > 0 for end, start in zip(ends, starts, strict=True))


@pytest.mark.slow
@pytest.mark.ci
def test_every_run_takes_another_order_of_waves(emulator: Told) -> None:
    run("validate", fills=("normal",), repeats=3, emu_seed=40)
    assert [call["seed"] for call in emulator("order")[:3]] == [40, 41, 42]


@pytest.mark.slow
@pytest.mark.ci
def test_options_reach_the_emulator(emulator: Told) -> None:
    run(emu_seed=7, emu_turn=40, emu_threads=3)
    (options,) = (call["options"] for call in emulator("attach"))
    assert (options["seed"], options["turn"], options["threads"], options["checks"]) == (7, 40, 3, True)
    assert Path(options["cache"]).is_dir()


@pytest.mark.slow
@pytest.mark.ci
def test_the_arithmetic_reaches_the_emulator_and_the_record(emulator: Told) -> None:
    (plain,) = run()
    (row,) = run(emu_arith=plugin.Arithmetic.HARDWARE, emu_careful=True)
    assert [call["options"]["careful"] for call in emulator("attach")] == [False, True]
    assert [call["options"]["arithmetic"] for call in emulator("attach")] == ["document", "hardware"]
    assert "--emu-careful --emu-arith hardware" in row.repro
    assert "--emu-arith" not in plain.repro


def test_an_arithmetic_that_an_emulator_lacks_is_refused(emulator: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.support.fakes.emulator import PaperEmulator

    monkeypatch.setattr(PaperEmulator, "arithmetics", (plugin.Arithmetic.DOCUMENT,))
    with pytest.raises(UsageError) as refused:
        run(emu_arith=plugin.Arithmetic.HARDWARE)
    assert refused.value.code == "Z007"


@pytest.mark.slow
@pytest.mark.ci
def test_one_worker_serves_one_runtime(emulator: Told, shared_cache: Path) -> None:
    registry = build_registry()
    backend, emulated = registry.backend("null"), registry.emulators["paper-emulator"].devices()[0]
    request = Request(device=ID, cache_root=str(shared_cache))
    context = build_context(request, Voice(print))
    here = backend.probe().devices[0]
    kernel = next(k for k in api.list_kernels("null", backend="null") if "fp16" in k.name)

    def job(device: DeviceFacts, emulation: Emulation | None) -> WorkerJob:
        plan = backend.plan(PROBLEM, kernel, device)
        artifacts = tuple(backend.build(stage, context) for stage in plan.stages)
        entry = registry.entry_point("null")
        return WorkerJob(entry=entry, device=device, plan=plan, artifacts=artifacts, emulation=emulation)

    attached = emulation_of(request, registry, context)
    jobs = [job(here, None), job(emulated, attached), job(emulated, attached), job(here, None)]
    pids = []
    with Supervisor() as supervisor, Arena(layout_of(PROBLEM)) as arena:
        arena.write(fill(PROBLEM))
        for one in jobs:
            arena.prepare()
            result = supervisor.run(one, arena, timeout=60.0)
            assert result.verdict is None, result.note
            assert (result.observed is None) is (one.emulation is None)
            pids.append(supervisor.worker_pid)
    assert pids[1] == pids[2]
    assert len({pids[0], pids[1], pids[3]}) == 3


def test_a_damaged_library_is_not_loaded(emulator: Told, monkeypatch: pytest.MonkeyPatch) -> None:

    honest = fake_emulator.PaperEmulator.build

    def damaged(
        self: fake_emulator.PaperEmulator, device: DeviceFacts, context: plugin.BuildContext
    ) -> plugin.Artifact:
        built = honest(self, device, context)
        built.path.write_text("another library", "utf-8")
        return built

    monkeypatch.setattr(fake_emulator.PaperEmulator, "build", damaged)
    (row,) = run()
    assert row.verdict is Verdict.LAUNCH_FAILED
    assert any("is damaged" in note for note in row.notes)
    assert emulator("attach") == []


@pytest.mark.parametrize("dry_run", [False, True])
def test_times_are_refused(emulator: Told, dry_run: bool) -> None:
    with pytest.raises(UsageError, match="no speed") as raised:
        run("bench", dry_run=dry_run)
    assert raised.value.code == "Z003"
    assert emulator("build") == []


@pytest.mark.slow
@pytest.mark.ci
def test_a_sweep_and_all_kernels_have_no_times_and_no_regret(emulator: Told) -> None:
    points = [api.Problem.from_cli(f"-H 1 -s {length} -d 8 --dtype fp16") for length in (8, 16)]
    rows = run("run", *points)
    assert [(r.device, r.measurement) for r in rows] == [(ID, None), (ID, None)]
    every = run("run", points[0], all_kernels=True, timeout=3.0)
    assert len(every) > 2
    assert {(r.measurement, r.regret, r.ab, r.baseline) for r in every} == {(None, None, None, None)}


def test_a_baseline_takes_no_row_of_an_emulated_device(emulator: Told, tmp_path: Path) -> None:
    """A baseline accepts neither a normal emulated row nor one with an invented time."""
    path = tmp_path / "old.json"
    (bench,) = api.run(PROBLEM, command="bench", backend="null", budget_s=0.05)
    timed = replace(bench, device=ID)
    path.write_text(json.dumps(to_json(report_document([run()[0], timed], NO_ENVIRONMENT))), "utf-8")
    with pytest.raises(UsageError, match="not a report"):
        load_baseline(path)
    path.write_text(json.dumps(to_json(report_document([bench, timed], NO_ENVIRONMENT))), "utf-8")
    assert len(load_baseline(path).records) == 1


@pytest.mark.slow
@pytest.mark.ci
def test_an_unknown_device_names_what_to_install() -> None:
    bare = Registry(entries=lambda: ())
    with pytest.raises(EnvironmentProblem) as raised:
        api.run(PROBLEM, registry=bare, device="emu:gfx942")
    assert (raised.value.code, raised.value.help) == ("Z001", "pip install fmha-amdgpu-emu")
    with pytest.raises(EnvironmentProblem) as raised:
        api.run(PROBLEM, registry=bare, device="emu:sm_80")
    assert (raised.value.code, raised.value.help) == ("Z001", "pip install fmha-nvptx-emu")
    paper = Registry(entries=lambda: (ENTRY,))
    with pytest.raises(EnvironmentProblem) as raised:
        api.run(PROBLEM, registry=paper, device="emu:gfx999")
    assert raised.value.code == "Z002"
    assert ID in (raised.value.why or "")
    with pytest.raises(EnvironmentProblem) as raised:
        api.run(PROBLEM, registry=paper, device="emu:sm_80")
    assert (raised.value.code, raised.value.help) == ("Z002", "pip install fmha-nvptx-emu")
    with pytest.raises(EnvironmentProblem) as raised:
        api.run(PROBLEM, registry=paper, device=ID, backend="cpu")
    assert raised.value.code == "E021"
    assert "paper-emulator" in (raised.value.why or "")


def test_an_emulator_that_is_none_is_a_fault_of_its_plugin(monkeypatch: pytest.MonkeyPatch) -> None:

    monkeypatch.setattr(fake_emulator, "PaperEmulator", object)
    registry = Registry(entries=lambda: (ENTRY,))
    assert registry.emulators == {}
    assert [fault.plugin for fault in registry.faults] == ["paper-emulator"]
    with pytest.raises(EnvironmentProblem, match="no emulator"):
        api.run(PROBLEM, registry=registry, device=ID)


def test_counts_and_findings_add_up() -> None:
    from tests.support.fakes.emulator import counts, finding

    (both,) = summed([counts(1), counts(2)])
    assert to_json(both) == {**to_json(counts(3)), "matrix_flops": 2 << 20, "global_read_bytes": 8192}
    found = merged([finding("lds-race", 2), finding("missing-wait"), finding("lds-race", 3)])
    assert [(f.kind.value, f.count) for f in found] == [("lds-race", 5), ("missing-wait", 1)]
    seen = plugin.Observed(tuple(found), (both,), "why")
    assert from_json(plugin.Observed, json.loads(json.dumps(to_json(seen)))) == seen
    assert vars(Region("q", 0, 1)) == {"name": "q", "start": 0, "end": 1, "writable": True}

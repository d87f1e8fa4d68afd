"""Golden documents of every kind, full and empty, for the tests of reports and schemas."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path
from typing import Any

from fmha_cli.discovery.models import presets
from fmha_cli.domain.arch import ArchSpec
from fmha_cli.domain.codec import json_of
from fmha_cli.domain.decision import Supported, Trace, Unsupported
from fmha_cli.domain.errors import KernelFailure, UsageError
from fmha_cli.domain.installation import CheckState, DoctorCheck, SourceState, SourceTree
from fmha_cli.domain.invariance import BitDifference, Invariance
from fmha_cli.domain.kernel import Family
from fmha_cli.domain.plan import Edited
from fmha_cli.domain.rules import Reason
from fmha_cli.domain.verdict import Comparison, Verdict
from fmha_cli.domain.workload import NO_SIZES, RecordedCall, Workload, WorkloadCall, WorkloadKind
from fmha_cli.report.documents import (
    build,
    cache,
    choices,
    differences,
    explain,
    inspect,
    inspections,
    installation,
    invariance,
    kernels,
    pages,
    plan,
    report,
    results,
    workloads,
)
from fmha_cli.report.documents.executed import executed_document
from fmha_cli.report.documents.models import Models
from fmha_cli.report.documents.parity import ParityPage
from fmha_cli.report.parts import ErrorRow, KernelRow
from fmha_cli.toolchain.cache.audit import ImportedEntry, VerifyReport
from fmha_cli.toolchain.cache.entry import Damage
from fmha_cli.toolchain.cache.exporting import ExportResult
from fmha_cli.toolchain.cache.importing import Held, Imported
from fmha_cli.toolchain.cache.listing import CacheStats, EntryInfo, KindStats
from fmha_cli.toolchain.cache.origin import ArchiveOrigin, Code
from fmha_cli.toolchain.cache.prune import Pruned
from fmha_cli.toolchain.cache.why import KeyDifference, KeyExplanation, KeyStanding
from tests.support.generators.report.samples import (
    ARTIFACT,
    BACKENDS,
    DIGEST,
    ENVIRONMENT,
    EXECUTED,
    PLAN,
    PROBLEM,
    REASON,
    bare,
    check,
    emulated,
    journal_lines,
    kernel,
    measurement,
    record,
)

_ROOT = "/cache"
RUN_ENTRY = results.RunEntry(
    id="0123456789abcdef" * 2,
    started="2026-11-22T19:40:00Z",
    ended=None,
    command="bench",
    label="nightly",
    revision="1a2b3c4",
    dirty=True,
    argv=("bench", "-s", "64"),
    fmha="0.1.0",
    records=4,
    verdicts={"PASSED": 3, "WRONG": 1},
    devices=("cpu",),
)
ENTRY = EntryInfo(
    DIGEST,
    "kernel",
    "cpu:fwd",
    "x86_64_v4",
    "g++",
    Path("/cache/v2/01"),
    4096,
    9,
    5,
    1_700_000_000_000_000_000,
    (),
    "a.tar",
)
DAMAGED = EntryInfo(
    DIGEST, None, None, None, None, Path("/cache/v2/02"), 10, None, None, 6, ("meta.json is missing",), None
)
ORIGIN = ArchiveOrigin("a.tar", DIGEST, 5, Code.HOST)
DAMAGE = Damage(DIGEST, Path("/cache/v2/02"), ("meta.json is missing",))
STATS = CacheStats(Path("/cache"), (KindStats("kernel", 1, 4096),), 2, 4106, 1, 5, None, 9, 0, 0, 1, 12, 0, 0, 7, 100)
TRACE = Trace(
    (
        Supported(kernel(), (0, 1)),
        Unsupported("cpu", "x86_64_v3", kernel(Family.BWD_DQ_DK_DV), (REASON, Reason("K001", "dtype", None))),
        Unsupported("ck_tile", "gfx942", None, (REASON,)),
    )
)
ARCH = ArchSpec("x86_64_v4", "cpu", "AVX-512", {"lanes": {"value": 16, "source": "manual", "unit": "f32"}}, {"cpu": {}})
PREFERENCE = explain.PreferenceRow(
    order=(
        explain.PreferredRow(backend="cpu", source="it is here", confirmed=("x86_64_v4",)),
        explain.PreferredRow(backend="a-plugin", source=None, confirmed=()),
    ),
    because="cpu, not a-plugin: it is in the order",
)
COMPARED = explain.ComparedKernel(
    name=kernel().name,
    digest=kernel().digest,
    backend="cpu",
    arch="x86_64_v4",
    family=Family.FWD,
    upstream_name=None,
    supported=True,
    rank=1,
    note="the first",
    reasons=(),
)


INSPECTED = inspect.inspect_document(
    kernel(),
    {
        "registers": {"vgpr": 132, "sgpr": 54},
        "spills": {"vgpr": 7, "sgpr": 0},
        "instructions": {"vfmadd": 9, "ret": 1},
        "ratio": 0.5,
        "kernels": [{"symbol": "a", "lds_bytes": 1}, {"symbol": "b", "lds_bytes": 2}],
    },
    ARTIFACT,
    "u",
)
BARE_INSPECTED = inspect.inspect_document(
    kernel(), {"registers": 3, "occupancy": 0.5, "odd": float("inf"), "why": "no tool"}, None
)


WORKLOAD = Workload(
    path="trace.json",
    kind=WorkloadKind.TORCH,
    calls=(
        WorkloadCall(count=12, place="aten::scaled_dot_product_attention", problem=PROBLEM),
        WorkloadCall(
            count=3, place="aten::scaled_dot_product_attention", reason=NO_SIZES("no shapes", "record_shapes=True")
        ),
    ),
)
CHOSEN = (
    choices.ChoiceRow(
        problem=PROBLEM.to_dict(),
        backend="cpu",
        device="cpu",
        arch="x86_64_v4",
        kernel=KernelRow.of(kernel(), "u"),
        reasons=(),
    ),
    choices.ChoiceRow(
        problem=PROBLEM.to_dict(),
        backend="x",
        device=None,
        arch=None,
        kernel=None,
        reasons=(Reason("K012", "hdim", "--hdim 64"),),
    ),
)


@functools.cache
def documents() -> dict[str, list[Any]]:
    """Schema name -> its golden documents, the full and the empty ones.

    They are made once, because all of them together take longer than a test of one; a test that changes one copies it.
    """
    from tests.support.generators.report.compared_runs import compare_documents  # its rows are of this module's kernel
    from tests.support.generators.report.tuned_problems import tune_documents, tuned_documents, tuned_row

    failure = KernelFailure("it did not build", code="B010", where="k", why="w", help="h")
    twice = replace(measurement(), process_of_sample=(0, 0, 0, 0, 1, 1, 1, 1))
    rows = [
        record(measurement=twice),
        bare(),
        record(Verdict.WRONG, comparisons=(Comparison(checks=(("o", check(float("nan"))),)),)),
    ]
    checks = [
        DoctorCheck(name="backend", subject="cpu", state=CheckState.OK, what="runs", time_ns=5),
        DoctorCheck(name="backend", subject="x", state=CheckState.FAILED, what="no", why="w", help="h"),
    ]
    brought = (
        installation.PluginRow(name="cpu", builtin=True, module="m", backends=("cpu",), fills=("f",)),
        installation.PluginRow(
            name="bad", builtin=False, distribution="d", version="1", faults=(installation.Fault("what", "help"),)
        ),
    )
    uncounted = installation.archs_document([ARCH])
    counted = replace(uncounted.archs[0], kernels=7)
    return {
        "archs": [replace(uncounted, archs=(counted,)), uncounted],
        "build": [
            build.build_document([build.build_entry(kernel(), ARTIFACT), build.build_entry(kernel(), failure, "u")]),
            build.build_document([]),
        ],
        "cache": [
            cache.cache_document(_ROOT, [ENTRY, DAMAGED]),
            cache.cache_document(_ROOT, [], STATS),
            cache.cache_document(
                _ROOT, [], VerifyReport(2, (DAMAGE,), (Path("/q"),), (DIGEST,), (ImportedEntry(DIGEST, ORIGIN),))
            ),
            cache.cache_document(_ROOT, [ENTRY], Pruned((ENTRY,), 9, (DIGEST,), (), (Path("/t"),))),
            cache.cache_document(
                _ROOT,
                [],
                KeyExplanation(DIGEST, KeyStanding.DIFFERS, DIGEST, (KeyDifference("flags", ["-O2"], None),), ("d",)),
            ),
            cache.cache_document(_ROOT, [], ExportResult(Path("x.tar"), 9, (DIGEST,), (DAMAGE,))),
            cache.cache_document(
                _ROOT,
                [],
                Imported(
                    DIGEST, (Held(DIGEST, "kernel", "cpu:fwd", "x86_64_v4", "g++", Code.HOST),), (DIGEST,), (), True
                ),
            ),
        ],
        "choices": [choices.Choices(rows=CHOSEN), choices.Choices(rows=())],
        "devices": [installation.devices_document(BACKENDS), installation.devices_document({})],
        "differences": [
            differences.differences_document(INSPECTED, replace(INSPECTED, spills={"vgpr": 0})),
            differences.differences_document(INSPECTED, BARE_INSPECTED),
        ],
        "doctor": [installation.doctor_document(checks, ENVIRONMENT)],
        "environment": [pages.EnvironmentLine(environment=ENVIRONMENT)],
        "error": [pages.FailurePage(error=ErrorRow.of(UsageError("no such flag", code="E002", where="--x")))],
        "executed": [
            executed_document(PROBLEM, emulated()),
            executed_document(PROBLEM, replace(emulated(), kernel=None, findings=None, executed=(EXECUTED,))),
        ],
        "explain": [
            explain.explain_document(PROBLEM, TRACE, kernel(), because="it fits"),
            explain.explain_document(PROBLEM, TRACE, kernel(), preference=PREFERENCE, tuned=tuned_row()),
            explain.explain_document(PROBLEM, TRACE, kernel(), because="it fits", tuned=tuned_row(used=False)),
            explain.explain_document(PROBLEM, Trace(()), None, ["--hdim 80", "no --lse"]),
        ],
        "models": [Models(models=tuple(presets().values())), Models(models=(presets()["gemma-3-27b"],))],
        "workload": [
            RecordedCall(count=12, flags=PROBLEM.repro()),
            RecordedCall(count=1, call="a mask by a function", reason="no flag expresses it"),
        ],
        "workloads": [workloads.workloads_document(WORKLOAD)],
        "rulebook": [pages.Rulebook(rules=(pages.RuleRow(id="K012", backends=("cpu",), text="it fits"),))],
        "why": [
            explain.WhyPage(
                problem=PROBLEM.to_dict(),
                a=COMPARED,
                b=replace(COMPARED, supported=False, rank=None, note=None, upstream_name="u", reasons=(REASON,)),
                differences=(explain.FieldRow(part="signature", field="hdim", a="64", b="128"),),
                rules=(explain.DecidingRule(id="K012", text="the head dims fit", kernel="b"),),
                because="the first fits",
            )
        ],
        "inspect": [INSPECTED, BARE_INSPECTED],
        "inspections": [
            inspections.inspections_document(
                [
                    inspections.inspection_row(kernel(), "u", INSPECTED),
                    inspections.inspection_row(kernel(), None, BARE_INSPECTED),
                    inspections.inspection_row(kernel(), None, failure),
                ]
            ),
            inspections.inspections_document([]),
        ],
        "invariance": invariances(),
        "journal": list(journal_lines()),
        "compare": compare_documents(),
        "tune": tune_documents(),
        "tuned": tuned_documents(),
        "kernels": [
            kernels.kernels_document(
                "x86_64_v4",
                [kernels.kernel_entry(kernel()), kernels.kernel_entry(kernel(), "u", [REASON])],
            ),
            kernels.kernels_document(None, []),
        ],
        "parity": parities(),
        "plan": [
            plan.plan_document(PROBLEM, PLAN, "cpu", ("up", None)),
            plan.plan_document(PROBLEM, None, reasons=[REASON]),
        ],
        "plugins": [installation.Plugins(plugins=brought)],
        "profiles": [
            installation.Profiles(
                profiles=(
                    installation.ProfileRow(
                        name="p", backend="cpu", title="t", aliases=("receipt:0",), archs=("a",), kernels=3
                    ),
                )
            )
        ],
        "record": rows,
        "report": [
            report.report_document(rows, ENVIRONMENT),
            report.report_document([], ENVIRONMENT, UsageError("bad", code="E001")),
        ],
        "results": [
            results.results_document("ls", "/data/results.sqlite", 4096, [RUN_ENTRY, replace(RUN_ENTRY, label=None)]),
            results.results_document("ls", "/data/results.sqlite", None, []),
            results.results_document("import", "/data/results.sqlite", 4096, [RUN_ENTRY], added=3, present=1),
            results.results_document("label", "/data/results.sqlite", 4096, [RUN_ENTRY]),
            results.results_document("rm", "/data/results.sqlite", 4096, [RUN_ENTRY], removed=4),
        ],
        "sources": [
            installation.Sources(
                sources=(
                    installation.SourceRow(name="ck", revision="abc", state=SourceState.MISSING, why="offline"),
                    installation.SourceRow(name="fa", revision="v2", state=SourceState.PRESENT, sha256=DIGEST, bytes=9),
                ),
                trees={
                    "ck_tile": SourceTree(
                        state=SourceState.PRESENT,
                        origin="the pinned source ck",
                        include="/ck/include",
                        revision="baseline",
                        digest=DIGEST,
                        notes=("passing over another",),
                    ),
                    "flash_attn": SourceTree(
                        state=SourceState.PRESENT,
                        origin="--fa-home /fa",
                        include="/fa",
                        revision="2.8",
                        digest=DIGEST,
                        edited=Edited(base="2.8", tree=DIGEST, files=3),
                    ),
                },
            ),
            installation.Sources(
                sources=(), trees={"ck_tile": SourceTree(state=SourceState.UNFIT, why="unknown", help="drop it")}
            ),
            installation.Sources(sources=()),
        ],
    }


@functools.cache
def json_documents() -> dict[str, list[Any]]:
    """The same as JSON values."""
    return {name: json_of(found) for name, found in documents().items()}


def invariances() -> list[invariance.InvariancePage]:
    """A property that holds, one that is broken, one that does not apply, and none at all."""
    held = invariance.InvariantRow(
        problem=PROBLEM.to_dict(),
        repro="fmha validate --invariant -b 2",
        backend="cpu",
        device="cpu",
        arch="x86_64_v4",
        kernel=KernelRow.of(kernel(), None),
        splits=1,
        verdict=Verdict.PASSED,
        property=Invariance.REPEATS,
        outcome=invariance.InvarianceOutcome.HELD,
        promised=True,
        required=False,
        change="2 launches of the same inputs",
        changed=None,
        changed_kernel=None,
        changed_splits=None,
        stage=None,
        place=None,
        difference=None,
        reasons=(),
        notes=(),
    )
    broken = replace(
        held,
        property=Invariance.BATCH,
        outcome=invariance.InvarianceOutcome.BROKEN,
        change="at places 0, 1 of a batch of 2",
        changed="-b 2 -H 8",
        changed_kernel=KernelRow.of(kernel(Family.FWD_SPLITKV), "up"),
        changed_splits=4,
        stage=invariance.DifferingStage.SPLIT,
        place=1,
        difference=BitDifference(
            tensor="o",
            index=(0, 1, 2),
            differing=3,
            elements=64,
            first=None,
            second=0.5,
            first_bits="0x7e00",
            second_bits="0x3800",
        ),
        notes=("a note",),
    )
    refused = replace(
        held,
        device=None,
        arch=None,
        kernel=None,
        splits=None,
        verdict=None,
        property=Invariance.PAGES,
        outcome=invariance.InvarianceOutcome.UNSUPPORTED,
        promised=None,
        required=True,
        change=None,
        reasons=(REASON, REASON),
    )
    failed = replace(held, verdict=Verdict.CRASHED, outcome=invariance.InvarianceOutcome.FAILED, notes=("it crashed",))
    rows = (held, broken, refused, failed, replace(held, verdict=Verdict.HAZARD, notes=("a race",)))
    return [invariance.invariance_document(found, ENVIRONMENT) for found in (rows, ())]


def parities() -> list[ParityPage]:
    """A listed case, and rows with and without each of their parts."""
    from fmha_cli.backends.ck_tile.parity.mapping import map_case
    from fmha_cli.domain.counterpart import Binaries, Program, Ran, Reading, Said
    from fmha_cli.parity.compare import ComparedCase, Times
    from fmha_cli.parity.document import case_row, listed_row, parity_document
    from fmha_cli.parity.suite import Suite, SuiteSource
    from fmha_cli.report.documents.parity import ParityOutcome
    from tests.support.generators.ck_tile.cases import ck_case

    suite = Suite("s", "title", (SuiteSource("a.sh", "r1"),), (), {})
    case, other = (map_case(ck_case(n, Program.FWD, {"vlayout": n})) for n in ("r", "c"))
    ran = Ran(("prog", "-b=1"), 0, "out", "err", seconds=0.5)
    rows = [
        ComparedCase(other, ParityOutcome.NOT_COMPARABLE, other.reasons),
        ComparedCase(case, ParityOutcome.WE_FAIL, ("w",), ran, Reading(Said.VALID, "", "[line", ("k",), 0.5), record()),
        ComparedCase(
            case, ParityOutcome.AGREE_PASS, (), ran, Reading(Said.VALID), bare(), Times((5, 6), (7, 8), "prog")
        ),
    ]
    binaries = Binaries({Program.FWD: Path("fwd")}, {Program.BWD: "missing"})
    return [
        parity_document(suite, [case_row(row) for row in rows], binaries, ENVIRONMENT),
        parity_document(suite, [listed_row(case), listed_row(other)], None, ENVIRONMENT),
        parity_document(Suite("s", "t", (), (), {}), [], None, ENVIRONMENT),
    ]

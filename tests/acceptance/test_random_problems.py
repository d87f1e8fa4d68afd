"""Acceptance 4: seeded random problems over the whole supported surface pass; refused ones give the reason."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from fmha_cli.discovery.registry import Registry, build_registry
from fmha_cli.domain.device import usable_cores
from fmha_cli.domain.errors import ExitCode
from fmha_cli.domain.features import FILLS, Direction
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.verdict import Verdict, exit_code_of
from fmha_cli.oracle.fills import fill
from fmha_cli.oracle.gradients import backward
from fmha_cli.oracle.measure import ONE_HOT
from fmha_cli.oracle.reference import Reference, forward
from fmha_cli.oracle.tensors import value_tensors
from fmha_cli.report.record import Record
from fmha_cli.run.request import Command, Request
from fmha_cli.run.rows import plan_rows
from fmha_cli.run.run import Run
from tests.cli.conftest import Fmha
from tests.support.fakes.software_tiles import WHOLE
from tests.support.generators.problems import REFUSALS, refused, supported
from tests.support.pasting import pasted, words_after_fmha

COUNT, CHUNKS, EACH = 4000, 40, 100
IN_DEFAULT, SOME, REST = slice(0, 3), slice(0, EACH // 6), slice(EACH // 6, EACH)
"""The problems of the first chunk that the default suite runs; those of its chunks that CI runs, and that it leaves to the slow suite."""

IN_A_ROW = 2
"""Neighbouring chunks of one architecture."""

MORE_CHUNKS = 100
IN_CI = (0,)
"""The chunks of which CI runs a sixth, of all ``MORE_CHUNKS``: one of the best architecture. Each architecture costs CI a dozen compiles; of the
others, ``tests/backends/cpu/test_extremes.py`` runs every kind of kernel in one type."""

REFUSED, REFUSED_IN_DEFAULT = 500, 60
FEW_KERNELS = 40
"""The most kernels of one architecture for all problems."""
DISTRUSTED = 0.03
"""The largest share of a chunk's rows that may pass without proving much."""

WITHOUT_GAPS = 7
"""One in this many chunks goes through ``run``; the others go through ``validate`` (gaps, repeats, the LSE sibling)."""


@pytest.fixture(scope="module")
def registry() -> Registry:
    return build_registry()


def request_of(chunk: int) -> Request:
    """The options of a chunk. The chunks cover every pair of fill and architecture, with one to three threads where there are as
    many cores. That of the default suite has the architecture whose kernels other tests compile too."""
    archs = WHOLE
    return Request(
        command=Command.RUN if chunk % WITHOUT_GAPS == 3 else Command.VALIDATE,
        backend="cpu",
        arch=archs[chunk // IN_A_ROW % len(archs)],
        fills=(FILLS[chunk % len(FILLS)],),
        fill_seed=chunk,
        threads=1 + chunk % min(3, usable_cores()),
        timeout=60.0,
        jobs=1,
        peak="spec",
    )


def problems_of(chunk: int) -> list[Problem]:
    return [supported(n) for n in range(EACH * chunk, EACH * (chunk + 1))]


CI, SLOW = (pytest.mark.slow, pytest.mark.ci), pytest.mark.slow


@pytest.mark.promise(
    "README: C++ of this project",
    "README: finds, builds and runs the kernel for your problem, and checks every number against a float64 reference",
    "Random problems pass against the float64 reference, and planted faults fail.",
)
@pytest.mark.parametrize(
    ("chunk", "part"),
    [
        pytest.param(0, IN_DEFAULT, id="0"),
        pytest.param(0, slice(IN_DEFAULT.stop, SOME.stop), marks=CI, id="0-rest"),
        *(pytest.param(n, REST, marks=SLOW, id=f"{n}-others") for n in IN_CI),
        *(pytest.param(n, slice(0, EACH), marks=SLOW, id=str(n)) for n in range(MORE_CHUNKS) if n not in IN_CI),
    ],
)
def test_random_problems_pass(registry: Registry, chunk: int, part: slice, fmha: Fmha) -> None:
    request, problems = request_of(chunk), problems_of(chunk)[part]
    records = Run(problems, request, registry).records()
    bad = list(_failing(records, request))
    assert not bad, f"{len(bad)} of {len(records)} rows; paste a line to see it again\n" + "\n".join(bad)
    assert [r.problem for r in records] == [p.to_dict() for p in _rows(problems, request)]
    distrusted = [r for r in records if r.verdict is Verdict.MISTRUSTED]
    assert len(distrusted) <= DISTRUSTED * len(records)
    _paste(records[chunk % len(records)], fmha)


def _rows(problems: list[Problem], request: Request) -> Iterator[Problem]:
    """The expected rows; ``validate`` also judges the sibling that returns LSE."""
    for problem in problems:
        yield problem
        if request.command is Command.VALIDATE and not problem.lse and not problem.direction.backward:
            yield replace(problem, lse=True)


def _failing(records: tuple[Record, ...], request: Request) -> Iterator[str]:
    """The repro line of every incorrect row, with what happened. Every line must parse back to its problem."""
    for record in records:
        command, problem, options = pasted(record.repro)
        assert (command, problem.to_dict()) == (request.command.value, record.problem)
        assert options.get("--arch") == record.arch == request.arch
        assert options.get("--fill-seed", "0") == str(request.fill_seed)
        assert options.get("--fill", "normal") == request.fills[0]
        if record.verdict is Verdict.MISTRUSTED and _means_little(problem, record, request):
            continue
        if record.verdict is not Verdict.PASSED:
            yield f"{record.repro}\n    {record.verdict.value}: {'; '.join(record.notes) or record.comparisons}"


def _means_little(problem: Problem, record: Record, request: Request) -> bool:
    """Whether the documented reasons for distrust really hold, computed here instead of read from the record."""
    if not all(check.passed for comparison in record.comparisons for _, check in comparison.checks):
        return False
    (name,) = request.fills
    inputs = fill(problem, name, request.fill_seed)
    if problem.direction.backward:
        found = backward(problem, inputs)
        if not (found.dq.any() or found.dk.any() or found.dv.any()):
            return True
    if not problem.direction.forward:
        return False
    reference = forward(problem.passes()[0], inputs)
    return (
        _all_zero(reference)
        or _flat(problem, next(value_tensors(problem, inputs)))
        or (name != "large" and _one_hot(reference))
    )


def _all_zero(reference: Reference) -> bool:
    return not reference.o.any()


def _one_hot(reference: Reference) -> bool:
    return bool((reference.peak[reference.visible > 1] > ONE_HOT).all())


def _flat(problem: Problem, v: np.ndarray) -> bool:
    """Whether all rows of V are equal within each sequence."""
    if problem.cache_seqlens is None and problem.seqlens_k is None:
        rows = v if problem.layout.value == "bhsd" else v.swapaxes(1, 2)
        return bool((rows == rows[:, :, :1]).all())
    return all(n <= 1 for n in problem.key_lengths())


def _paste(record: Record, fmha: Fmha) -> None:
    """Pasting one line reproduces that row."""
    again = fmha(*words_after_fmha(record.repro), "--json")
    assert again.code == ExitCode.OK, again.err
    rows = [row for row in again.document["records"] if row["problem"] == record.problem]
    assert [(row["kernel"]["name"], row["repro"]) for row in rows] == [(record.kernel.name, record.repro)]


@pytest.mark.parametrize("chunks", [1, pytest.param(CHUNKS, marks=SLOW)])
def test_four_thousand_problems_need_few_kernels(registry: Registry, chunks: int) -> None:
    kernels: dict[str, set[str]] = defaultdict(set)
    for chunk in range(chunks):
        request = request_of(chunk)
        found = {"cpu": registry.backend("cpu").probe()}
        for row in plan_rows(problems_of(chunk), request, registry, found):
            assert row.plan is not None, row.problem.repro()
            for stage in row.plan.stages:
                kernels[stage.kernel.arch].add(stage.kernel.name)
    assert max(len(names) for names in kernels.values()) <= FEW_KERNELS


@pytest.mark.slow
@pytest.mark.ci
def test_the_problems_cover_the_surface() -> None:
    problems = {supported(n) for n in range(COUNT)}
    assert len(problems) == COUNT
    seen = Counter(key for problem in problems for key in problem.to_dict())
    often = (
        "alibi",
        "bias",
        "cache_leftpad",
        "cache_seqlens",
        "kv_dtype",
        "qscale",
        "dropout",
        "mla_rope",
        "offset",
        "seed",
        "seqlens_k",
        "sink",
        "sink_logits",
        "softcap",
    )
    assert min(seen[key] for key in often) >= 100, seen
    for name in (
        "dtype",
        "layout",
        "layout_out",
        "bias",
        "alibi",
        "lse",
        "mode",
        "kv_cache",
        "dbias",
        "kv_dtype",
        "qscale",
    ):
        values = Counter(getattr(problem, name) for problem in problems)
        assert min(values.values()) >= 25, (name, values)
    masks = Counter(problem.mask.kind for problem in problems)
    assert min(masks.values()) >= 100, masks
    assert len(masks) == 6
    directions = Counter(problem.direction for problem in problems)
    assert min(directions[Direction.BWD] // 2, directions[Direction.FWD_BWD]) >= 100, directions
    assert sum(problem.hdim % 8 > 0 for problem in problems) >= 400
    assert sum(max(problem.hdim, problem.hdim_v) > 256 for problem in problems) >= 80
    assert sum(problem.v_in_k and problem.direction.backward for problem in problems) >= 15
    assert sum(min(problem.key_lengths()) == 0 for problem in problems) >= 100
    assert sum(problem.seqlen_q <= 16 for problem in problems) >= 400


@pytest.mark.promise("Every backend answers whether it supports a problem, and gives its reasons if not.")
@pytest.mark.parametrize("count", [REFUSED_IN_DEFAULT, pytest.param(REFUSED, marks=SLOW)])
def test_refused_problems_say_why(registry: Registry, count: int) -> None:
    asked = [refused(n) for n in range(count)]
    records = Run([a.problem for a in asked], Request(backend="cpu"), registry).records()
    for wanted, record in zip(asked, records, strict=True):
        assert record.verdict is Verdict.UNSUPPORTED, record.repro
        ids = {reason.id for reason in record.reasons}
        assert ids.intersection(wanted.rules), (wanted.kind, record.repro, record.reasons)
        for reason in record.reasons:
            implied = (
                wanted.problem.dtype.is_mx and reason.id == "K018"
            )  # an MX type brings its scales; its own reason helps
            assert reason.text, record.repro
            assert reason.hint or implied, record.repro
        assert exit_code_of([record.verdict]) is ExitCode.UNSUPPORTED
        assert pasted(record.repro)[1] == wanted.problem
    assert len({a.problem for a in asked}) == count


@pytest.mark.sampled(3, ci="all")
@pytest.mark.parametrize("n", range(len(REFUSALS)))
def test_a_refused_command_line_exits_3(n: int, fmha: Fmha) -> None:
    wanted = refused(n)
    answer = fmha("run", *wanted.problem.repro().split(), "--json")
    assert answer.code == ExitCode.UNSUPPORTED
    (record,) = answer.document["records"]
    assert {reason["id"] for reason in record["reasons"]}.intersection(wanted.rules)

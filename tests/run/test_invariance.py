"""``validate --invariant``: what is changed is nothing to the formulas, and planted orders are found and named."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from pathlib import Path

import fmha_null
import numpy as np
import pytest
from fmha_null.kernels import Behaviour, behaviour_of, main_kernels

from fmha_cli.conformance import Subject, check_invariances
from fmha_cli.discovery.builtins import BUILTINS
from fmha_cli.discovery.registry import Registry
from fmha_cli.domain.arch import ArchSpec
from fmha_cli.domain.decision import Decision, Supported
from fmha_cli.domain.device import CPU, DeviceFacts
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.errors import ImpossibleProblem
from fmha_cli.domain.features import Direction
from fmha_cli.domain.invariance import AROUND, Invariance, why_unchangeable
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.verdict import Verdict
from fmha_cli.oracle.fills import fill
from fmha_cli.oracle.reference import forward
from fmha_cli.report.documents.invariance import DifferingStage, InvarianceOutcome, InvariantRow
from fmha_cli.run.invariance import InvarianceProbe
from fmha_cli.run.request import Request
from fmha_cli.run.variants import alone_of, first_difference, placed, read_part, variants_of
from tests.checks.invariance import CASES

HELD, DIFFERS, BROKEN = InvarianceOutcome.HELD, InvarianceOutcome.DIFFERS, InvarianceOutcome.BROKEN
LINE = "-b 3 -H 2 -s 40 -d 16 --dtype fp32 --causal --lse"
EMULATED = DeviceFacts(id="emu:sm_80", archs=("sm_80",), units=108)


def small_problems(seed: int, count: int) -> Iterator[Problem]:
    draw = random.Random(seed)
    while count:
        rows = draw.choice([1, 2, 5, 17])
        keys = rows + draw.choice([0, 0, 3, 30])
        words = ["-H", draw.choice("24"), "--kv-heads", draw.choice("12"), "-d", "8", "--dtype", "fp32", "--lse"]
        words += ["--layout", draw.choice(["bhsd", "bshd", "bhsd:bshd"])]
        words += draw.choice(
            [[], ["--causal"], ["--mask", "window:4,0"], ["--mask", "window:4,2"], ["--mask", "causal-tl"]]
        )
        words += draw.choice(
            [
                *([], ["--softcap", "5"], ["--sink-logits", "filled"], ["--alibi"], ["--alibi-slopes", "filled"]),
                *([["--bias", f"elementwise:{rank}"] for rank in ("11ss", "bhss", "b11s", "1h1s")]),
            ]
        )
        words += draw.choice(
            [
                ["-b", draw.choice("13"), "-s", str(rows), "--seqlen-k", str(keys)],
                ["-s", str(rows), "-b", "3", "--kv-cache", "linear", "--cache-seqlens", f"{keys},9,{keys}"],
                ["-s", str(rows), "--kv-cache", "paged:4", "--cache-seqlens", str(keys)],
                ["--seqlens-q", f"{rows},3,{rows}", "--seqlens-k", f"{keys},40,2"],
            ]
        )
        try:
            yield Problem.from_cli(words)
        except ImpossibleProblem:
            continue
        count -= 1


def test_a_change_is_nothing_to_the_formulas() -> None:
    seen: set[Invariance] = set()
    for asked in small_problems(seed=1, count=40):
        alone, _ = alone_of(asked)
        inputs = fill(alone, seed=3)
        answer = forward(alone, inputs)
        before = {"o": answer.o_tensor(alone), "lse": answer.lse_tensor(alone)}
        for property in sorted({*AROUND, Invariance.CHUNKS}):
            if why_unchangeable(property, alone, EMULATED) is not None:
                continue
            for variant in variants_of(property, asked, 1, 2, 108):
                others = fill(variant.problem, seed=4)
                changed = placed(variant, alone, inputs, others)
                answer = forward(variant.problem, changed)
                after = {"o": answer.o_tensor(variant.problem), "lse": answer.lse_tensor(variant.problem)}
                first, end = variant.rows or (0, alone.seqlen_q)
                for at in variant.places:
                    for name in ("o", "lse"):
                        part = read_part(variant.problem, name, after, at)
                        np.testing.assert_allclose(
                            part, read_part(alone, name, before, 0)[:, first:end], atol=1e-12, err_msg=f"{variant}"
                        )
                seen.add(property)
    assert seen == {*AROUND, Invariance.CHUNKS}


def test_a_difference_is_counted_in_the_sequence_alone() -> None:
    asked = Problem.from_cli(LINE)
    alone, _ = alone_of(asked)
    *_, piece = variants_of(Invariance.CHUNKS, asked, 1, 2, 1)
    first, end = piece.rows or (0, 0)
    before = {"o": np.zeros((1, 2, 40, 16), np.float32)}
    after = {"o": np.zeros((1, 2, end - first, 16), np.float32)}
    assert first_difference(piece, alone, before, after) is None
    after["o"][0, 1, 2, 3] = -0.0
    found = first_difference(piece, alone, before, after)
    assert found is not None
    assert (found[0].index, found[0].differing, found[0].first_bits, found[0].second_bits) == (
        (1, first + 2, 3),
        1,
        "0x00000000",
        "0x80000000",
    )
    assert str(found[0]).endswith("0 and -0")


def subject(cache: Path, backend: fmha_null.NullBackend | None = None) -> Subject:
    specs = fmha_null.fmha_register_arch_specs()
    return Subject(backend or fmha_null.NullBackend(), entry="fmha_null", cache_root=cache, arch_specs=specs)


def rows_of(registry: Registry, cache: Path, line: str = LINE, **request: object) -> dict[Invariance, InvariantRow]:
    asked = Request(backend="null", cache_root=str(cache), **request)  # type: ignore[arg-type]
    with InvarianceProbe(asked, registry) as probe:
        return {row.property: row for row in probe.rows_of(Problem.from_cli(line))}


def planted(behaviour: Behaviour) -> str:
    kernels = (k for k in main_kernels() if behaviour_of(k) is behaviour and k.signature.dtype is DType.FP32)
    return next(kernels).digest


@pytest.mark.parametrize(
    ("behaviour", "property", "stage"),
    [
        (Behaviour.SPLIT_BY_BATCH, Invariance.BATCH, DifferingStage.SPLIT),
        (Behaviour.ORDER_BY_THREADS, Invariance.THREADS, DifferingStage.THREAD),
        (Behaviour.TILE_BY_PLACE, Invariance.BATCH, DifferingStage.TILE),
        (Behaviour.NONDETERMINISTIC, Invariance.REPEATS, DifferingStage.RUN),
    ],
)
def test_a_planted_order_breaks_its_promise_by_its_stage(
    behaviour: Behaviour, property: Invariance, stage: DifferingStage, tmp_path: Path
) -> None:
    found = rows_of(subject(tmp_path / "cache").registry, tmp_path / "cache", kernel=planted(behaviour), threads=2)
    row = found[property]
    assert (row.outcome, row.stage, row.promised) == (BROKEN, stage, True)
    assert row.difference is not None
    assert row.difference.tensor == "o"
    assert row.difference.first_bits != row.difference.second_bits
    broken = {one.property for one in found.values() if one.outcome is BROKEN}
    assert broken == {property} or stage is DifferingStage.RUN


def test_a_kernel_that_keeps_its_promises_holds_and_what_does_not_apply_is_never_held(tmp_path: Path) -> None:
    found = rows_of(subject(tmp_path / "cache").registry, tmp_path / "cache", threads=1)
    assert list(found) == list(Invariance)
    assert {found[one].outcome for one in (Invariance.REPEATS, Invariance.BATCH, Invariance.THREADS)} == {HELD}
    assert all(row.verdict is Verdict.PASSED for row in found.values())
    for property in (Invariance.PAGES, Invariance.UNITS):
        assert found[property].outcome is InvarianceOutcome.NOT_APPLICABLE
        assert [reason.id for reason in found[property].reasons] == ["K033"]
    splits = found[Invariance.SPLITS]
    assert splits.outcome in (HELD, DIFFERS)
    assert splits.kernel is not None
    assert splits.changed_kernel is not None
    assert splits.kernel.digest != splits.changed_kernel.digest


class _Fickle(fmha_null.NullBackend):
    """Takes another correct kernel for a batch, and promises nothing."""

    def decide(self, problem: Problem, device: DeviceFacts) -> Iterable[Decision]:
        for decision in super().decide(problem, device):
            family = Family.FWD_SPLITKV if problem.batch > 1 else Family.FWD
            if isinstance(decision, Supported) and behaviour_of(decision.kernel) is Behaviour.HONEST:
                yield Supported(decision.kernel, (int(decision.kernel.family is not family),))
            else:
                yield decision

    def promises(self, problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> frozenset[Invariance]:
        return frozenset()


def test_another_kernel_for_a_batch_is_the_stage_and_no_broken_promise(tmp_path: Path) -> None:
    registry = subject(tmp_path / "cache", _Fickle()).registry
    row = rows_of(registry, tmp_path / "cache")[Invariance.BATCH]
    assert (row.outcome, row.stage, row.promised) == (DIFFERS, DifferingStage.KERNEL, False)
    pinned = rows_of(registry, tmp_path / "cache", kernel=planted(Behaviour.HONEST))[Invariance.BATCH]
    assert pinned.outcome is HELD


class _Careless(_Fickle):
    """Promises, kernel by kernel, what its choice breaks."""

    def promises(self, problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> frozenset[Invariance]:
        return frozenset((Invariance.BATCH,))


def test_a_choice_that_breaks_what_is_required_fails(tmp_path: Path) -> None:
    registry = subject(tmp_path / "cache", _Careless()).registry
    assert rows_of(registry, tmp_path / "cache")[Invariance.BATCH].outcome is DIFFERS
    required = rows_of(registry, tmp_path / "cache", require=(Invariance.BATCH,))[Invariance.BATCH]
    assert (required.outcome, required.stage, required.required) == (BROKEN, DifferingStage.KERNEL, True)


class _Lying(fmha_null.NullBackend):
    """Offers the kernel whose order depends on the place."""

    def decide(self, problem: Problem, device: DeviceFacts) -> Iterable[Decision]:
        for decision in super().decide(problem, device):
            if decision.kernel is not None and behaviour_of(decision.kernel) is Behaviour.TILE_BY_PLACE:
                yield decision

    def kernels(self, arch: ArchSpec) -> Iterable[KernelSpec]:
        return (kernel for kernel in super().kernels(arch) if behaviour_of(kernel) is Behaviour.TILE_BY_PLACE)


def test_the_conformance_test_sees_a_broken_promise(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="BROKEN batch"):
        check_invariances(subject(tmp_path / "cache", _Lying()))


def test_a_backward_pass_and_dropout_move_nowhere() -> None:
    cpu = DeviceFacts(id=CPU, archs=("generic",))
    for line in ("-s 8 --dropout 0.5", "-s 8 --direction bwd", "-s 8 --direction fwd+bwd --bias elementwise --dbias"):
        problem = Problem.from_cli(line)
        why = {one for one in Invariance if why_unchangeable(one, problem, cpu) is None}
        kept = {Invariance.REPEATS, Invariance.THREADS, Invariance.SPLITS}
        assert why == (kept if problem.direction is not Direction.BWD else kept - {Invariance.SPLITS})


def test_every_backend_of_the_package_has_its_rows_in_the_table() -> None:
    assert {case.backend for case in CASES} == set(BUILTINS)

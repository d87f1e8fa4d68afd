"""Building a set of kernels: each once, refused ones never, a missing compiler reported once, within the memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

import pytest

from fmha_cli.discovery.registry import Registry
from fmha_cli.domain.arch import ArchSpec
from fmha_cli.domain.errors import EnvironmentProblem, ExitCode, KernelFailure
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.plan import Artifact, Stage
from fmha_cli.domain.protocols import Batched, BuildContext, Catalogued
from fmha_cli.domain.rules import Reason
from fmha_cli.report.documents.build import BuildState, build_state
from fmha_cli.run import builds
from fmha_cli.run.builds import KernelOutcome, build_orders
from fmha_cli.run.request import Order
from fmha_cli.toolchain.parallel import COMPILE_BYTES
from tests.support.fakes.paper_backends import Paper, PaperBackend, checked


@dataclass
class Seen:
    """Records what reached the backend."""

    prepared: int = 0
    built: list[int] = field(default_factory=list)


class HeavyBackend(PaperBackend):
    """Refuses tile 1, fails on tile 2, and has no compiler if configured so."""

    def __init__(self, seen: Seen, *, broken: bool = False) -> None:
        super().__init__("heavy", ("paper",))
        self.seen = seen
        self.broken = broken

    def prepare(self, context: BuildContext) -> object:
        self.seen.prepared += 1
        if self.broken:
            raise EnvironmentProblem("no compiler", code="B031", help="install one")
        return self.seen

    def compile_bytes(self, kernel: KernelSpec) -> int:
        return 3 * COMPILE_BYTES

    def build(self, stage: Stage, context: BuildContext) -> Artifact:
        assert isinstance(context.stop, Event)
        assert context.prepared is self.seen
        tile = tile_of(stage.kernel)
        self.seen.built.append(tile)
        if tile == 2:
            raise KernelFailure("x.hip:1: error: no [log: /log]", code="B010", where="/log")
        return super().build(stage, context)

    def revisions(self) -> tuple[str, ...]:
        return ("only",)

    def catalogue(self, arch: ArchSpec, profile: str | None, revision: str | None) -> Iterable[KernelSpec]:
        return self.kernels(arch)

    def refusals(self, kernel: KernelSpec) -> tuple[Reason, ...]:
        reasons = (Reason("K201", "tile 1 is too small", "tile 2"), Reason("K202", "and odd"))
        return reasons if tile_of(kernel) == 1 else ()


def tile_of(kernel: KernelSpec) -> int:
    assert isinstance(kernel.algorithm, Paper)
    return kernel.algorithm.tile


class OneBackend(Registry):
    """A registry with a single backend."""

    def __init__(self, backend: PaperBackend) -> None:
        super().__init__({}, lambda: ())
        self.only = checked(backend)

    def backend(self, name: str) -> PaperBackend:  # type: ignore[override]
        return self.only  # type: ignore[return-value]


def stages(backend: PaperBackend, *tiles: int) -> list[Stage]:
    plain = next(iter(backend.of("paper")))
    return [Stage(KernelSpec(**{**vars(plain), "algorithm": Paper(tile=tile)})) for tile in tiles]


def built(backend: PaperBackend, *tiles: int) -> tuple[list[KernelOutcome], list[tuple[int, int]], list[str]]:
    ticks: list[tuple[int, int]] = []
    heard: list[str] = []
    wanted = stages(backend, *tiles)
    found = build_orders(
        map(Order, wanted),
        OneBackend(backend),
        BuildContext(Path("cache"), jobs=2),
        lambda done, total, what: ticks.append((done, total)),
        lambda outcome: heard.append(outcome.name),
    )
    return [found[stage.kernel.digest] for stage in wanted], ticks, heard


def test_the_fake_is_what_it_claims() -> None:
    backend = HeavyBackend(Seen())
    assert isinstance(backend, Batched)
    assert isinstance(backend, Catalogued)
    assert not isinstance(PaperBackend("p", ("paper",)), Batched)


def test_refused_kernels_never_reach_the_backend() -> None:
    seen = Seen()
    outcomes, ticks, heard = built(HeavyBackend(seen), 4, 1, 2, 4, 8)
    states = [build_state(outcome.error or outcome.value) for outcome in outcomes]  # type: ignore[arg-type]
    cached, refused, failed = BuildState.CACHED, BuildState.REFUSED, BuildState.FAILED
    assert states == [cached, refused, failed, cached, cached]
    assert sorted(seen.built) == [2, 4, 8]
    assert seen.prepared == 1
    error = outcomes[1].error
    assert error is not None
    assert (error.code, error.help, error.exit_code) == ("K201", "tile 2", ExitCode.UNSUPPORTED)
    assert "K202 and odd" in str(error.why)
    assert ticks == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert len(heard) == len(set(heard)) == 4


def test_a_missing_compiler_is_found_once() -> None:
    seen = Seen()
    outcomes, _, heard = built(HeavyBackend(seen, broken=True), 1, 2, 4)
    assert [outcome.error.code for outcome in outcomes if outcome.error] == ["K201", "B031", "B031"]
    assert build_state(outcomes[1].error) is BuildState.NOT_RUN  # type: ignore[arg-type]
    assert seen == Seen(prepared=1)
    assert len(heard) == 3


def test_nothing_is_prepared_when_all_is_refused() -> None:
    seen = Seen()
    built(HeavyBackend(seen, broken=True), 1)
    assert seen == Seen()


@pytest.mark.parametrize(("backend", "memory"), [(HeavyBackend(Seen()), 3), (PaperBackend("p", ("paper",)), 1)])
def test_the_memory_of_a_compile(backend: PaperBackend, memory: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    real = builds.build_many

    def spy(jobs, workers, progress):  # type: ignore[no-untyped-def]
        asked.extend(job.memory for job in jobs)
        return real(jobs, workers, progress)

    monkeypatch.setattr(builds, "build_many", spy)
    built(backend, 4, 8)
    assert asked == [memory * COMPILE_BYTES] * 2


class MeasuredBackend(HeavyBackend):
    """Tile 4 is in the cache, tile 8 cannot be looked up, and any other takes 40 to 60 s for each row of the tile."""

    def compile_seconds(self, stage: Stage, context: BuildContext) -> tuple[float, float] | None:
        assert context.prepared is self.seen
        tile = tile_of(stage.kernel)
        if tile == 8:
            raise EnvironmentProblem("the cache cannot be read", code="B001")
        return None if tile == 4 else (40.0 * tile, 60.0 * tile)


@pytest.mark.parametrize(
    ("tiles", "said"),
    [
        ((3, 4, 16, 8), ["2 kernels of heavy to compile: 12 min 40 s to 19 min of processor time"]),
        ((1, 3, 16), ["2 kernels of heavy to compile: 12 min 40 s to 19 min of processor time"]),  # one is refused
        ((3, 4), ["1 kernel of heavy to compile: 2 min to 3 min of processor time"]),
        ((3,), ["1 kernel of heavy to compile: 2 min to 3 min of processor time"]),
        ((4, 8), []),
    ],
)
def test_what_kernels_take_is_said_before_the_first_is_built(tiles: Sequence[int], said: list[str]) -> None:
    seen, heard = Seen(), list[str]()
    backend = MeasuredBackend(seen)

    def hear(text: str) -> None:
        assert seen.built == []
        heard.append(text)

    build_orders(map(Order, stages(backend, *tiles)), OneBackend(backend), BuildContext(Path("cache"), notify=hear))
    assert heard == said
    assert set(seen.built) == {*tiles} - {1}


def test_a_backend_that_measured_nothing_says_nothing() -> None:
    heard: list[str] = []
    backend = HeavyBackend(Seen())
    context = BuildContext(Path("cache"), notify=heard.append)
    build_orders(map(Order, stages(backend, 4, 8, 16)), OneBackend(backend), context)
    assert heard == []


def test_an_interrupt_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stopped(PaperBackend):
        def build(self, stage: Stage, context: BuildContext) -> Artifact:
            raise KernelFailure("never mind")

    def hear() -> Iterator[None]:
        raise KeyboardInterrupt
        yield

    backend = Stopped("p", ("paper",))
    with pytest.raises(KeyboardInterrupt):
        build_orders(
            map(Order, stages(backend, 4, 8)),
            OneBackend(backend),
            BuildContext(Path("cache")),
            heard=lambda outcome: next(hear()),
        )

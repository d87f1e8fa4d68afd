"""Whether the winner of a search is surely faster than the default, and right: interleaved fresh processes, then
``validate``.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace

from fmha_cli.bench.compare import Speed
from fmha_cli.bench.difference import Difference, SureRule
from fmha_cli.discovery.registry import Registry
from fmha_cli.domain.errors import FmhaError
from fmha_cli.domain.features import FILLS
from fmha_cli.report.form import Format
from fmha_cli.report.record import Record
from fmha_cli.results.comparison import compared
from fmha_cli.results.conditions import By, is_good
from fmha_cli.results.turns import ONLY, Turns
from fmha_cli.run.request import Command, Request
from fmha_cli.run.rows import Row
from fmha_cli.run.run import Run

_ASKING = (
    *(f"FMHA_{form.upper()}" for form in Format),
    *("FMHA_KERNEL", "FMHA_BACKEND", "FMHA_SELECT", "FMHA_OUTPUT"),
)
"""Variables of options that the processes get on their command lines."""

EQUAL = (By.PROBLEM, By.BACKEND, By.DEVICE, By.CACHE, By.THREADS)
"""The conditions that must correspond in a confirmation. The kernels may be for two architectures of one device."""


@dataclass(frozen=True, kw_only=True)
class Confirmer:
    """How winners are confirmed.

    Attributes:
        environ: the variables that fresh processes inherit.
        processes: of each kernel.
        min_gain: the least gain, as a share.
    """

    request: Request
    registry: Registry
    environ: Mapping[str, str]
    processes: int
    min_gain: float

    def confirm(self, default: Row, winner: Row) -> tuple[Difference | None, str | None]:
        """The difference, and why the winner is not surely faster by the least gain, and right; None if it is.

        Raises:
            KeyboardInterrupt: the user interrupted.
        """
        try:
            difference = self.difference(default, winner)
            if difference.speed is not Speed.FASTER:
                return difference, _kept(difference, self.min_gain)
            bad = [record for record in self.validated(winner) if not is_good(record)]
        except FmhaError as fault:
            return None, f"the confirmation did not run: {fault.what}" + (f" ({fault.why})" if fault.why else "")
        return difference, f"the fastest kernel did not pass validate: {bad[0].verdict}" if bad else None

    def difference(self, default: Row, winner: Row) -> Difference:
        """The difference of the winner from the default, in interleaved fresh processes.

        Raises:
            FmhaError: a process printed no rows, or nothing corresponds.
            KeyboardInterrupt: the user interrupted.
        """
        environ = {name: text for name, text in self.environ.items() if name not in _ASKING}
        environ[ONLY] = default.problem.digest[:16]
        turns = Turns((self._command(default), self._command(winner)), environ)
        before, after = turns.run(self.processes)
        (row, *_) = compared(before, after, SureRule(tolerance=self.min_gain), EQUAL).rows
        return row.difference

    def _command(self, row: Row) -> tuple[str, ...]:
        assert row.choice is not None
        request = self.request
        words = [sys.executable, "-m", "fmha_cli", "bench", *shlex.split(row.problem.repro())]
        words += ["--backend", row.choice.kernel.backend, "--device", row.choice.device.id]
        words += ["--kernel", row.choice.kernel.name, "--cache", row.cache.value, "--jsonl", "--no-store", "--quiet"]
        words += ["--threads", str(request.threads)] if request.threads else []
        words += ["--budget", f"{request.budget_s:g}", "--fill-seed", str(request.fill_seed)]
        words += ["--no-check"] if not request.check else []
        words += ["--no-probe"] if not request.probe else []
        words += [word for name, text in request.options.items() for word in (f"--{name}", text)]
        return tuple(words)

    def validated(self, winner: Row) -> tuple[Record, ...]:
        """The records of ``validate`` for a winner.

        Raises:
            FmhaError: it cannot be validated.
            KeyboardInterrupt: the user interrupted.
        """
        assert winner.choice is not None
        kernel = winner.choice.kernel
        request = replace(
            self.request,
            command=Command.VALIDATE,
            backend=kernel.backend,
            kernel=kernel.name,
            fills=FILLS,
            all_kernels=False,
            check=True,
        )
        return Run([winner.problem], request, self.registry).records()


def _kept(difference: Difference, min_gain: float) -> str:
    """Why a difference does not make a winner."""
    share = f"{min_gain * 100:g} %"
    if difference.speed is Speed.SAME:
        return f"SAME: the fastest in the search is within {share} of the default"
    if difference.speed is Speed.SLOWER:
        return "SLOWER: the fastest in the search is slower than the default in fresh processes"
    saw = difference.could_see
    # The test goes by order: next to a wider spread, the difference that it could have seen reads as a contradiction.
    told = saw is not None and difference.spread <= saw
    seen = f"; a difference of {(saw or 0) * 100:g} % would have been seen" if told else ""
    return f"UNSURE whether it is more than {share} faster: {difference.why}{seen}"


def gain_of(difference: Difference) -> tuple[float | None, tuple[float, float] | None]:
    """How much longer, as a share, the default takes than the winner, with the interval."""
    if difference.ratio is None:
        return None, None
    ends = difference.ratio_ci95
    return 1 / difference.ratio - 1, None if ends is None else (1 / ends[1] - 1, 1 / ends[0] - 1)

"""Building candidates: the most promising first, in parallel, until there is no time for more."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from fmha_cli.discovery.registry import Registry
from fmha_cli.domain.protocols import BuildContext
from fmha_cli.domain.rules import Reason, Severity
from fmha_cli.run.builds import KernelOutcome, build_orders
from fmha_cli.run.rows import Row

UNBUILT = "X070"


def unbuilt(budget_s: float) -> Reason:
    """Why a candidate was not built."""
    return Reason(
        UNBUILT, f"not built: {budget_s:g} s of --build-budget were used up", "--build-budget S", Severity.CHOICE
    )


def build_within(
    rows: Sequence[Row],
    registry: Registry,
    context: BuildContext,
    budget_s: float | None,
    progress: Callable[[int, int, str], None] = lambda done, total, what: None,
    clock: Callable[[], float] = time.monotonic,
) -> Mapping[str, KernelOutcome]:
    """The outcomes of the candidates' builds, by ``Order.key``. A build that began is finished.

    Args:
        budget_s: seconds after which no further build begins; None = no limit. The first rows are built in any case: the
            default is among them.

    Raises:
        KeyboardInterrupt: the user interrupted; finished kernels are in the cache.
    """
    built: dict[str, KernelOutcome] = {}
    batch = len(rows) if budget_s is None else context.jobs
    started = clock()
    for at in range(0, len(rows), max(1, batch)):
        if at and budget_s is not None and clock() - started >= budget_s:
            break
        orders = [order for row in rows[at : at + batch] for order in row.orders if order.key not in built]
        built.update(build_orders(orders, registry, context, progress))
    return built

"""The ``Chooser`` of a request."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fmha_cli.discovery.registry import Registry
from fmha_cli.domain.device import Availability, usable_cores
from fmha_cli.walk.builds import build_context
from fmha_cli.walk.host import this_host
from fmha_cli.walk.request import Request
from fmha_cli.walk.tuning.choice import Chooser, EntriesOf
from fmha_cli.walk.tuning.scopes import Scopes

TUNED, DEFAULT = "tuned", "default"
"""Values of ``--select`` that name no kernel."""


def chooser_of(
    request: Request,
    registry: Registry,
    found: Mapping[str, Availability],
    tuned: EntriesOf | None,
    notify: Callable[[str], None] = lambda text: None,
) -> Chooser | None:
    """What chooses among tuned kernels; None if nothing shall, or if nothing is remembered."""
    if tuned is None or request.select != TUNED or request.kernel is not None or request.wanted.several:
        return None

    def scopes() -> Scopes:
        building = build_context(request, notify)
        threads = request.threads or usable_cores()
        return Scopes(registry=registry, found=found, building=building, host=this_host(), threads=threads)

    return Chooser(entries_of=tuned, registry=registry, found=found, wanted=request.wanted, scopes=scopes)

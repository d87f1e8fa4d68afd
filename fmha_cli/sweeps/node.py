"""``fmha worker``: the workers of one host in a Dask cluster, one for each device, until they are stopped."""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any

from fmha_cli.domain.device import is_emulated
from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.sweeps.addresses import Tls, need_dask
from fmha_cli.sweeps.places import WorkerPlace
from fmha_cli.sweeps.remote import worker_name

LEAVE_S = 300
"""Seconds without the scheduler after which a worker gives up, so none stays behind on a machine. It may take as long
to start.
"""


def serve(url: str, places: Sequence[WorkerPlace], tls: Tls | None, tell: Callable[[str], None]) -> None:
    """Run a worker for each device until the scheduler ends or this process is interrupted. A worker that dies is replaced.

    Raises:
        EnvironmentProblem: X063, Dask is not installed; X064, the scheduler does not answer.
    """
    need_dask()
    try:
        asyncio.run(_serve(url, places, tls, tell))
    except (
        OSError,
        TimeoutError,
        RuntimeError,
        AssertionError,
    ) as fault:  # Dask raises all of them when it cannot start
        help = "`dask scheduler` starts one"
        what, why = f"the workers could not join the scheduler at {url}", str(fault) or type(fault).__name__
        raise EnvironmentProblem(what, code="X064", where="--scheduler", why=why, help=help) from fault


async def _serve(url: str, places: Sequence[WorkerPlace], tls: Tls | None, tell: Callable[[str], None]) -> None:
    from distributed import Nanny

    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="fmha-worker-"))
        nannies: list[Any] = []
        for place in places:
            copy = place.name.rpartition("#")[2] if is_emulated(place.device) else ""
            nanny = Nanny(
                url,
                nthreads=1,
                name=worker_name(place.device, copy),
                memory_limit=0,
                death_timeout=LEAVE_S,
                security=None if tls is None else tls.security(),
                host=None if tls is not None else "127.0.0.1",
                dashboard_address=None,
                local_directory=folder,
                silence_logs=logging.WARNING,
            )
            nannies.append(await stack.enter_async_context(nanny))
            tell(f"{place.text}: at {url}")
        await asyncio.gather(*(nanny.finished() for nanny in nannies))

"""``fmha worker``: lend this host's devices to a sweep."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from fmha_cli.cli.call import CliCall
from fmha_cli.cli.command import CommandSpec, Opt
from fmha_cli.cli.options import BACKEND
from fmha_cli.domain.errors import ExitCode, UsageError
from fmha_cli.domain.flags import FlagKind

if TYPE_CHECKING:
    from fmha_cli.sweeps.addresses import Tls

_spreading = partial(Opt, panel="Spreading")
DEVICES = _spreading(
    "devices",
    FlagKind.TEXT,
    "all, or devices with commas; emu:ARCH*N is one emulated N times [default: all]",
    metavar="all|ID,...",
    lists=True,
)
SCHEDULER = _spreading(
    "scheduler",
    FlagKind.TEXT,
    "Where the workers are: local, a Dask scheduler, or jobs of Slurm [default: local]",
    metavar="local|tcp://HOST:PORT|slurm:NAME=VALUE,...",
    lists=True,
)
ADDRESS = replace(
    SCHEDULER,
    help="Address of a Dask scheduler, which `dask scheduler` starts",
    metavar="tcp://HOST:PORT|tls://HOST:PORT",
)
TLS = (
    _spreading("tls-ca", FlagKind.FILE, "Certificate of the authority that both sides trust (PEM)"),
    _spreading("tls-cert", FlagKind.FILE, "Certificate of this side (PEM)"),
    _spreading("tls-key", FlagKind.FILE, "Key of this side's certificate (PEM)"),
)


def tls_of(call: CliCall) -> Tls | None:
    """The certificates; None without any.

    Raises:
        UsageError: E002, one of the three is missing, or is not a file.
    """
    from pathlib import Path

    from fmha_cli.sweeps.addresses import Tls

    given = {option.key: call.settings.text(option.key) for option in TLS}
    if not any(given.values()):
        return None
    for option in TLS:
        text = given[option.key]
        if text is None or not Path(text).is_file():
            what = f"--{option.name} is missing" if text is None else f"--{option.name} {text}: no such file"
            raise UsageError(
                what, code="E002", where=f"--{option.name}", help="all three of --tls-ca, --tls-cert, --tls-key"
            )
    ca, cert, key = (str(Path(str(given[option.key])).absolute()) for option in TLS)
    return Tls(ca=ca, cert=cert, key=key)


def worker(call: CliCall) -> int:
    """Serve until the scheduler ends, or until Ctrl-C.

    Raises:
        UsageError: E002, no address of a scheduler.
    """
    from fmha_cli.discovery.wanted import Wanted
    from fmha_cli.sweeps.addresses import Where, need_dask, parse_scheduler
    from fmha_cli.sweeps.node import serve
    from fmha_cli.sweeps.places import places_here

    tls = tls_of(call)
    text = call.settings.text("scheduler")
    address = None if text is None else parse_scheduler(text, tls=tls is not None)
    if address is None or address.where is not Where.DASK:
        help = "--scheduler tcp://HOST:8786; `dask scheduler` starts one"
        raise UsageError("fmha worker needs the address of a scheduler", code="E002", where="--scheduler", help=help)
    need_dask()
    wanted = Wanted(backend=call.settings.text("backend") or "auto")
    places = places_here(call.settings.text("devices") or "all", call.registry, wanted)
    serve(address.url, places, tls, call.console.say)
    return int(ExitCode.OK)


COMMANDS = {
    "worker": CommandSpec(
        worker,
        options=(ADDRESS, DEVICES, *TLS, BACKEND),
        detail="One worker for each device, in a Dask cluster (pip install fmha[dask]). It runs the chunks of fmha sweep "
        "--scheduler ADDRESS, each in a process that holds the device's lease. A worker that dies is replaced. The port of a "
        "scheduler runs what is sent to it, so beyond this machine all sides need certificates.",
    )
}

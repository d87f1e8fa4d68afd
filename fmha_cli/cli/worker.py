"""``fmha worker``: lend this host's devices to a sweep."""

from __future__ import annotations

from pathlib import Path

from fmha_cli.cli.call import CliCall
from fmha_cli.cli.commands.sweep import TLS
from fmha_cli.discovery.wanted import Wanted
from fmha_cli.domain.errors import UsageError
from fmha_cli.sweeps.addresses import Tls, Where, need_dask, parse_scheduler
from fmha_cli.sweeps.node import serve
from fmha_cli.sweeps.places import places_here


def tls_of(call: CliCall) -> Tls | None:
    """The certificates; None without any.

    Raises:
        UsageError: E002, one of the three is missing, or is not a file.
    """
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


def worker(call: CliCall) -> None:
    """Serve until the scheduler ends, or until Ctrl-C.

    Raises:
        UsageError: E002, no address of a scheduler.
    """
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

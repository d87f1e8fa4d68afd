"""``fmha cache why``."""

from __future__ import annotations

from fmha_cli.cli.cache import is_named, show_entries
from fmha_cli.cli.call import CliCall
from fmha_cli.cli.request import named_kernel, request_of
from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.phases import Voice
from fmha_cli.domain.plan import Stage
from fmha_cli.domain.protocols import Keyed
from fmha_cli.run.builds import build_context
from fmha_cli.toolchain.cache.key import BuildKey, BuildKind
from fmha_cli.toolchain.cache.listing import list_entries
from fmha_cli.toolchain.cache.why import explain_entry, explain_key


def why(call: CliCall) -> None:
    """Whether a kernel would be found, and in which parts of its key the nearest entry differs.

    No backend can compute the key of an entry of another kind. Such an entry is compared with its nearest relative.
    """
    layout, text = call.cache(), str(call.argument("kernel"))
    others = [
        info for info in list_entries(layout) if info.kind not in (None, BuildKind.KERNEL) and is_named(text, info)
    ]
    if others:
        show_entries(call, layout, explain_entry(layout, max(others, key=lambda info: info.created_ns or 0).digest))
        return
    kernel = named_kernel(call)
    backend = call.registry.backend(kernel.backend)
    key = None
    if isinstance(backend, Keyed):
        key = backend.cache_key(Stage(kernel), build_context(request_of(call), Voice(call.console.say)))
    if not isinstance(key, BuildKey):
        raise UsageError(f"backend {kernel.backend} does not expose its cache keys", code="E015", where=kernel.name)
    show_entries(call, layout, explain_key(layout, key))

"""``fmha list-kernels``."""

from __future__ import annotations

from fmha_cli.cli.call import Call
from fmha_cli.cli.command import Command, Opt
from fmha_cli.cli.kernels import SELECTING, selected_kernels
from fmha_cli.cli.options import ROWS
from fmha_cli.flags import Flag, FlagKind

COUNT = Opt(Flag("count", FlagKind.SWITCH, "Print the number alone"), "Output")


def list_kernels(call: Call) -> int:
    """Every selected kernel; needs no device, sources or compiler."""
    from fmha_cli.report.document import kernel_entry, kernels_document

    if call.settings.on("count") and call.output.form == "table":
        call.output.text(str(sum(1 for _ in selected_kernels(call))))
        return 0
    backends = call.registry.backends
    entries = [kernel_entry(k, backends[k.backend].upstream_name(k)) for k in selected_kernels(call)]
    document = kernels_document(call.settings.text("arch"), entries)
    call.output.document({**document, "kernels": []} if call.settings.on("count") else document)
    return 0


COMMAND = Command(
    list_kernels,
    options=(*SELECTING, COUNT, *ROWS),
    detail="Without --arch, the kernels of every architecture. Terms of --filter match fields of the kernel, of its "
    "signature and of its algorithm; several terms with one key are alternatives.",
)

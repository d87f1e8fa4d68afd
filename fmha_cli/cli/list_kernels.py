"""``fmha list-kernels``."""

from __future__ import annotations

from fmha_cli.cli.call import Call
from fmha_cli.cli.command import Command, Opt
from fmha_cli.cli.kernels import SELECTING, refuser, selected_kernels
from fmha_cli.cli.options import ROWS
from fmha_cli.domain.flags import FlagKind
from fmha_cli.report.form import Format

COUNT = Opt("count", FlagKind.SWITCH, "Print the number alone", panel="Output")


def list_kernels(call: Call) -> None:
    """Every selected kernel; needs no device, sources or compiler."""
    from fmha_cli.report.documents.kernels import kernel_entry, kernels_document

    if call.settings.on("count") and call.output.form is Format.TABLE:
        call.output.text(str(sum(1 for _ in selected_kernels(call))))
        return
    backends = call.registry.backends
    entries, reasons_against = [], refuser(call)
    for kernel in selected_kernels(call):
        reasons = reasons_against(kernel)
        name = backends[kernel.backend].upstream_name(kernel)
        entries.append(kernel_entry(kernel, name, reasons, buildable=not reasons))
    document = kernels_document(call.settings.text("arch"), entries)
    call.output.document({**document, "kernels": []} if call.settings.on("count") else document)


COMMAND = Command(
    list_kernels,
    options=(*SELECTING, COUNT, *ROWS),
    detail="Without --arch, the kernels of every architecture. Terms of --filter match fields of the kernel, of its "
    "signature and of its algorithm; several terms with one key are alternatives. A profile of a project (fmha "
    "profiles) lists what that project generates; kernels of it that cannot be built say why.",
)

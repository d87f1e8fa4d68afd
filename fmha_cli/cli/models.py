"""``fmha models``."""

from __future__ import annotations

from fmha_cli.cli.call import CliCall
from fmha_cli.discovery.models import presets, wanted_model
from fmha_cli.report.documents.models import Models


def models(call: CliCall) -> None:
    """Every preset, or one model with its facts; a path is that of a configuration."""
    name = call.argument("model")
    if name is None:
        call.output.document(Models(models=tuple(presets().values())))
        return
    wanted = wanted_model(name, "fmha models")
    if wanted.note:
        call.console.say(wanted.note)
    call.output.document(Models(models=(wanted.model,)))

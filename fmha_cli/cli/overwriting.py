"""Outputs that would overwrite what the command reads: refused before any work, for every command alike."""

from __future__ import annotations

from pathlib import Path

from fmha_cli.cli.call import CliCall

_WRITTEN = ("output", "html", "parquet", "jsonl", "csv", "out")
_READ = ("baseline", "problems", "shapes", "from", "compare", "store")


def refuse_overwriting_inputs(call: CliCall) -> None:
    """Refuse an output whose file is read by any other option or argument, by whatever name or link.

    Raises:
        UsageError: E038.
    """
    values = call.settings.values
    targets = {key: text for key in _WRITTEN if key in values and isinstance(text := values[key].value, str)}
    if not targets:
        return
    from fmha_cli.run.outputs import refuse_overwriting

    read: dict[str, Path] = {}
    for key in _READ:
        for text in call.settings.many(key):
            read.setdefault(f"--{key} {text}", Path(text))
    for name, given in call.arguments.items():
        for text in [given] if isinstance(given, str) else given or ():
            read.setdefault(f"{name.upper()} {text}", Path(text))
    for key, text in targets.items():
        refuse_overwriting((Path(text),), "-o" if key == "output" else f"--{key}", read)

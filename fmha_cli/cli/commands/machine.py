"""The commands about this machine and this installation: ``fmha doctor``, ``devices``, ``plugins``, ``archs`` and others."""

from __future__ import annotations

from fmha_cli.cli.command import Argument, CommandSet, CommandSpec, Opt
from fmha_cli.cli.options import BACKEND, BUILDING, CACHE_DIR, DOCUMENT, ROWS, TIMEOUT
from fmha_cli.domain.flags import FlagKind

DIR = Opt("dir", FlagKind.FILE, "The folder in which the plugin's folder is made [default: .]", metavar="DIR")

COMMANDS = {
    "doctor": CommandSpec(
        "doctor:doctor",
        options=(TIMEOUT, *BUILDING, CACHE_DIR, *ROWS),
        documents=("doctor",),
        arguments=(
            Argument("names", "Backends, emulators or plugins that must work: exit 4 if one does not", many=True),
        ),
    ),
    "devices": CommandSpec(
        "devices:devices",
        options=(BACKEND, *ROWS),
        detail="An emulated device (emu:ARCH) runs kernels on the CPU, instruction by instruction. It is used only if "
        "--device names it, and times on it mean nothing.",
    ),
    "plugins": CommandSet(
        {
            "list": ("List what is installed, and what is wrong with it", CommandSpec("plugins:plugins", options=ROWS)),
            "new": (
                "Write a new backend that passes its conformance tests",
                CommandSpec(
                    "plugins:new_plugin",
                    options=(DIR,),
                    arguments=(Argument("name", "Name of the backend", required=True),),
                    detail="It is the example plugin under the new name: attention in plain C++ that runs on any CPU. The "
                    "page docs/how-to/write-a-backend.md leads from there to a backend of your own.",
                ),
            ),
        },
        alone="list",
    ),
    "archs": CommandSpec(
        "archs:archs",
        options=ROWS,
        arguments=(Argument("arch", "One architecture [default: all]", complete="archs"),),
    ),
    "profiles": CommandSpec("profiles:profiles", options=ROWS),
    "models": CommandSpec(
        "models:models",
        options=ROWS,
        arguments=(Argument("model", "A preset, or a config.json [default: all presets]", complete="models"),),
        detail="--model NAME takes the place of the problem flags in run, validate, bench, explain, plan, build and inspect.",
    ),
    "workloads": CommandSpec(
        "workloads:workloads",
        options=ROWS,
        arguments=(
            Argument("file", "A recording, a workload of flashinfer-bench, a trace, or an ONNX model", required=True),
        ),
        detail="--workload FILE takes the place of the problem flags in run, validate, bench and sweep. A call that no problem "
        "describes is a row with the reason, so the counts add up to all attention calls of the file.",
    ),
    "schema": CommandSpec(
        "schema:schema",
        options=DOCUMENT,
        arguments=(Argument("name", "Name of the schema; without it, the names are printed", complete="schemas"),),
    ),
}

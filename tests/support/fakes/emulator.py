"""A paper emulator: the device ``emu:null``, on which the null backend's kernels run as usual.

The variable ``FAKE_EMULATOR`` (JSON) holds the findings to report. ``findings`` is a list of kinds. ``launch`` is the
number of the launch, from 0, that has them (every launch if absent). ``fault`` is the reason why the launch stopped.
Each call that it receives becomes a JSON line in the file ``FAKE_EMULATOR_LOG``. A program that runs on it writes its
own report.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fmha_cli import plugin
from fmha_cli.domain.emulation import Executed, Finding, FindingKind, Region

ID = "emu:null"
KERNEL = "paper_kernel"


class PaperAttached:
    def __init__(self, device: plugin.DeviceFacts, options: plugin.EmulatorOptions) -> None:
        self._launches = 0
        self._told = 0
        self._checks = options.checks
        log("attach", device=device.id, options=vars(options))

    def order(self, seed: int) -> None:
        self._launches += 1
        log("order", seed=seed)

    def watch(self, start: int, size: int, regions: Sequence[Region]) -> None:
        log("watch", size=size, regions=[list(vars(region).values()) for region in regions])

    def take(self) -> plugin.Observed:
        wished = json.loads(os.environ.get("FAKE_EMULATOR", "{}"))
        launches, self._told = range(self._told, self._launches), self._launches
        seen = wished.get("launch") is None or wished["launch"] in launches
        kinds = wished.get("findings", []) if self._checks and seen and launches else []
        executed = (counts(len(launches)),) if launches else ()
        return plugin.Observed(tuple(finding(kind) for kind in kinds), executed, wished.get("fault"))


def finding(kind: str, count: int = 1) -> Finding:
    return Finding(
        kind=FindingKind(kind),
        kernel=KERNEL,
        instruction="v_add_f32 v1, v2, v3",
        address=0x40,
        text=f"v2 of lane 7: {kind}",
        lane=7,
        count=count,
    )


def counts(launches: int) -> Executed:
    return Executed(
        kernel=KERNEL,
        launches=launches,
        instructions=100 * launches,
        classes={"valu": 70 * launches, "matrix": 30 * launches},
        matrix_flops=1 << 20,
        global_read_bytes=4096,
        barriers=2 * launches,
    )


class PaperEmulator:
    name = "paper-emulator"
    runtime = "null"
    arithmetics = (plugin.Arithmetic.DOCUMENT, plugin.Arithmetic.HARDWARE)

    def devices(self) -> tuple[plugin.DeviceFacts, ...]:
        return (
            plugin.DeviceFacts(id=ID, archs=("null",), name="numpy, emulated", units=4),
            plugin.DeviceFacts(id="emu:gfx942", archs=("gfx942",), name="paper", units=304),
        )

    def probe(self) -> plugin.Availability:
        return plugin.Availability(state=plugin.State.OK, devices=self.devices(), version="1")

    def build(self, device: plugin.DeviceFacts, context: plugin.BuildContext) -> plugin.Artifact:
        path = context.cache_root / f"paper-emulator-{os.getpid()}"  # tests in other processes damage their file
        path.write_text("a library", "utf-8")
        log("build", device=device.id)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        return plugin.Artifact(path, digest, digest, path, True, 0.0)

    def attach(self, library: Path, device: plugin.DeviceFacts, options: plugin.EmulatorOptions) -> plugin.Attached:
        assert library.read_text("utf-8") == "a library"
        return PaperAttached(device, options)

    def program_environment(
        self, library: Path, device: plugin.DeviceFacts, options: plugin.EmulatorOptions, report: Path
    ) -> Mapping[str, str]:
        return {"PAPER_REPORT": str(report), "PAPER_DEVICE": device.id}

    def read_report(self, text: str) -> plugin.Observed:
        kinds = json.loads(text)
        if kinds is None:
            return plugin.Observed()  # the program ended without a launch
        return plugin.Observed(tuple(finding(kind) for kind in kinds), (counts(1),))


@plugin.hookimpl
def fmha_register_emulators() -> list[plugin.Emulator]:
    return [PaperEmulator()]


def log(call: str, **said: Any) -> None:
    path = os.environ.get("FAKE_EMULATOR_LOG")
    if path:
        with Path(path).open("a", encoding="utf-8") as stream:
            stream.write(json.dumps({"call": call, "pid": os.getpid(), **said}) + "\n")


def install(folder: Path) -> None:
    """Lay out the emulator like an installed plugin, for processes with ``folder`` on their module path."""
    info = folder / "paper_emulator-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: paper-emulator\nVersion: 1\n", "utf-8")
    (info / "entry_points.txt").write_text(f"[fmha]\npaper-emulator = {__name__}\n", "utf-8")

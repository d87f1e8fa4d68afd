"""``CkCounterpart``: Composable Kernel's example programs behind the protocol that ``fmha parity`` drives."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from fmha_cli.backends.ck_tile.parity import mapping
from fmha_cli.backends.ck_tile.parity import reading as results
from fmha_cli.backends.ck_tile.parity.building import Linked, ProgramWorkshop, build_program
from fmha_cli.backends.ck_tile.parity.case import BINARIES, DEFAULTS
from fmha_cli.backends.ck_tile.parity.generating import Listed, list_needed
from fmha_cli.backends.ck_tile.revisions import AS_OPTION, HOME_OPTION
from fmha_cli.backends.ck_tile.tree import ck_tree, pinned_tree
from fmha_cli.backends.hip.rocm_parts import rocm_supply
from fmha_cli.domain.arch import ArchSpec
from fmha_cli.domain.counterpart import Binaries, Mapped, Needs, Program, Progress, Ran, Reading, UpstreamCase
from fmha_cli.domain.protocols import BuildContext
from fmha_cli.toolchain.notice import as_text
from fmha_cli.toolchain.rocm.toolchain import find_rocm

VISIBLE = ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
"""The HIP runtime chooses and numbers devices by these variables. The first one that is set counts."""


class CkCounterpart:
    """The example programs; ``fmha_cli.domain.counterpart.Counterpart`` has the contract of the members."""

    binaries = BINARIES
    options = DEFAULTS
    once: Mapping[str, str] = MappingProxyType({"warmup": "0", "repeat": "1"})
    timing: Mapping[str, str] = MappingProxyType({"v": "0", "warmup": "5", "repeat": "20"})

    def suites(self) -> Mapping[str, Path]:
        return {path.stem: path for path in sorted(Path(__file__).with_name("suites").glob("*.json"))}

    def mapped(self, case: UpstreamCase) -> Mapped:
        return mapping.map_case(case)

    def read(self, ran: Ran, case: UpstreamCase, *, validated: bool = True) -> Reading:
        return results.read(ran, case, validated=validated)

    def without_times(self, reading: Reading) -> Reading:
        return results.without_times(reading)

    def environment(self, device: str | None, environ: Mapping[str, str]) -> dict[str, str]:
        out = {**environ, "LC_ALL": "C"}
        kind, _, number = (device or "").partition(":")
        if kind != "hip" or not number.isdecimal():
            return out
        name = next((name for name in VISIBLE if environ.get(name)), VISIBLE[0])
        visible = environ[name].split(",") if environ.get(name) else []
        out[VISIBLE[0]] = visible[int(number)].strip() if int(number) < len(visible) else number
        if name != VISIBLE[0]:
            out.pop(name)
        return out

    def make(
        self,
        needs: Mapping[Program, Needs],
        arch: ArchSpec,
        context: BuildContext,
        into: Path | None,
        progress: Progress,
    ) -> Binaries:
        shop = _workshop(arch, context)
        paths: dict[Program, Path] = {}
        missing: dict[Program, str] = {}
        for program in Program:
            need = needs.get(program)
            if need is None or not need.kernels:
                missing[program] = f"{BINARIES[program]} was not built: no case that can be compared has a kernel"
                continue
            if need.without:
                context.notify(f"{BINARIES[program]}: {need.without} of its cases have no kernel here and will not run")
            asked = list_needed(need)
            linked = build_program(asked, shop, into, progress)
            paths[program] = linked.path
            context.notify(_describe_build(asked, linked))
        return Binaries(paths, missing)


def _workshop(arch: ArchSpec, context: BuildContext) -> ProgramWorkshop:
    say = as_text(context.notify, context.phase)
    home, taken_as = (context.options.get(option) for option in (HOME_OPTION, AS_OPTION))
    tree = ck_tree(context.cache_root, home=home, taken_as=taken_as, offline=context.offline, notify=say)
    if tree.example is None:
        context.notify(f"the Composable Kernel of {tree.origin} lacks upstream's examples; the pinned source has them")
        tree = pinned_tree(context.cache_root, offline=context.offline, notify=say)
    supply = rocm_supply(context.cache_root, offline=context.offline, notify=say)
    toolchain = find_rocm(context.cache_root, parts=supply, notify=say)
    return ProgramWorkshop(cache_root=context.cache_root, tree=tree, toolchain=toolchain, arch=arch, jobs=context.jobs)


def _describe_build(asked: Listed, linked: Linked) -> str:
    runtime = (
        "linked without a HIP runtime, because none was found; to run it, load one first (LD_PRELOAD=libamdhip64.so)"
    )
    if linked.runtime:
        runtime = f"linked to {linked.runtime}"
    return (
        f"built {linked.path} for {asked.arch}: {len(asked.names)} kernels of {', '.join(asked.apis)}; "
        f"{linked.compiled} files compiled, {linked.kept} kept; {runtime}"
    )

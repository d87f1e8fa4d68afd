"""The settings with which a row's kernels run: from facts, measured once per machine, or the kernels' own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fmha_cli.bench.peaks import this_machine
from fmha_cli.bench.settings import MeasuredKernel, kept_settings, measured_once
from fmha_cli.domain.errors import FmhaError
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.measuring import Tunable
from fmha_cli.domain.plan import Artifact
from fmha_cli.domain.settings import Settings, SettingsFrom
from fmha_cli.run.request import Context
from fmha_cli.run.rows import Row


def settings_of(row: Row, artifacts: Sequence[Artifact], context: Context) -> Settings | None:
    """The settings of the first stage that takes any; None if none does.

    Settings that no fact decides are measured where they matter for the problem, unless the user forbade it
    (``--no-probe``).
    """
    if row.choice is None or row.plan is None:
        return None
    backend, device = context.registry.backend(row.choice.kernel.backend), row.choice.device
    if not isinstance(backend, Tunable) or device.emulated:
        return None
    for stage, artifact in zip(row.plan.stages, artifacts, strict=True):
        found = backend.default_settings(stage.kernel, device)
        if found is None:
            continue
        worth = backend.worth_measuring(row.problem, stage.kernel, device)
        return _decided(found, stage.kernel, artifact, context, worth=worth)
    return None


def _decided(found: Settings, kernel: KernelSpec, artifact: Artifact, context: Context, *, worth: bool) -> Settings:
    """What was measured for a kernel, or is measured now because it is worth it, in place of the kernel's own settings."""
    if found.source is not SettingsFrom.KERNEL:
        return found
    root, threads = context.building.cache_root, context.threads
    subject = MeasuredKernel(machine=this_machine(threads, artifact.digest, kernel.arch), kernel=kernel.name)
    kept = kept_settings(root, subject)
    if kept is not None or not context.request.probe or not worth:
        return kept or found
    entry = context.registry.entry_point(kernel.backend)

    def measure() -> Mapping[str, int]:
        return context.supervisor.settings(entry, kernel.backend, artifact, kernel.name, threads)

    what = f"{kernel.arch} {kernel.digest[:8]}"
    context.voice.say(f"measuring the settings of {what} on this machine, once (--no-probe skips this)")
    try:
        return measured_once(root, subject, measure)
    except FmhaError as fault:
        context.voice.say(f"{what} runs with its own settings: {fault.what}")
        return found

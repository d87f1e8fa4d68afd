"""Selection: problem x backends x devices -> a Trace of decisions, and the kernels to run, best first.

System facts are passed in (``Availability`` of each backend), so selection is tested without hardware.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fmha_cli.discovery.builtins import device_kinds
from fmha_cli.discovery.finding import find_kernel
from fmha_cli.discovery.kernel_index import digest_prefix
from fmha_cli.discovery.preference import Preference
from fmha_cli.discovery.registry import Registry
from fmha_cli.discovery.wanted import AUTO, Wanted, wanted_backends
from fmha_cli.domain.arch import apart
from fmha_cli.domain.decision import Decision, Supported, Trace, Unsupported
from fmha_cli.domain.device import CPU, NO_DEVICE, Availability, DeviceFacts, State
from fmha_cli.domain.errors import EnvironmentProblem, UnsupportedError
from fmha_cli.domain.invariance import Invariance, Promising, why_unchangeable
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import Backend
from fmha_cli.domain.rules import Reason, Severity, reasons_against
from fmha_cli.domain.suggest import NameKind, suggest
from fmha_cli.domain.tuning import Varied


@dataclass(frozen=True)
class Choice:
    """A supported kernel and the device to run it on; ``device.id`` is ``none`` when none accepts it."""

    decision: Supported
    device: DeviceFacts

    @property
    def kernel(self) -> KernelSpec:
        return self.decision.kernel

    @property
    def runnable(self) -> bool:
        return self.device.id != NO_DEVICE


@dataclass(frozen=True)
class Selection:
    """All decisions, and the choices best first: the first GPU, other GPUs, the CPU; on one device by preference, then by rank.

    Attributes:
        preference: the order of the backends.
    """

    trace: Trace
    choices: tuple[Choice, ...]
    preference: Preference = field(default_factory=Preference)

    @property
    def best(self) -> Choice | None:
        return self.choices[0] if self.choices else None

    def of(self, backend: str) -> Selection:
        """The decisions about the kernels of one backend."""
        trace = Trace(tuple(d for d in self.trace.decisions if d.backend == backend))
        return Selection(trace, tuple(c for c in self.choices if c.kernel.backend == backend), self.preference)


def select(
    problem: Problem,
    registry: Registry,
    found: Mapping[str, Availability],
    wanted: Wanted,
    *,
    refusals_too: bool = False,
) -> Selection:
    """Ask every wanted backend about every wanted device.

    Args:
        found: each wanted backend's probe.
        refusals_too: a refusal of the named kernel is an answer, not an error.

    Raises:
        UsageError: an unknown backend, architecture or kernel.
        EnvironmentProblem: the named device or backend is not here.
        UnsupportedError: the named kernel is refused (exit 3).
    """
    backends = wanted_backends(registry, wanted)
    if wanted.arch is not None:
        registry.arch(wanted.arch)  # an unknown architecture is a usage error, whatever the backends say
    _require_device(backends, found, wanted)
    pinned = None
    if wanted.kernel is not None:  # to know every backend's architectures takes longer than everything else here
        pinned = find_kernel(registry, backends, wanted.kernel, archs_in_play(backends, found, wanted))
    decisions: list[tuple[Decision, DeviceFacts]] = []
    for backend in backends:
        if pinned is not None and pinned.backend != backend.name:
            continue
        availability = found.get(backend.name, Availability(state=State.NO_DEVICE))
        arch = wanted.arch or (pinned.arch if pinned else None)
        devices, refusal = _devices_of(backend, availability, arch, wanted)
        decisions.extend((d, device) for device in devices for d in _asked(backend, problem, device, arch))
        if pinned is not None and isinstance(backend, Varied) and all(d.kernel != pinned for d, _ in decisions):
            for device in devices:
                facts = device if arch is None else replace(device, archs=(arch,))
                decisions.extend((d, device) for d in backend.decide_variants(problem, facts))
        decisions.extend([(refusal, DeviceFacts(id=NO_DEVICE, archs=()))] if refusal else [])
    if wanted.require:
        decisions = [(_keeping(d, problem, device, registry, wanted.require), device) for d, device in decisions]
    if pinned is not None:
        decisions = [(d, device) for d, device in decisions if d.kernel is None or d.kernel == pinned]
        decisions = decisions or [(_not_offered(pinned, problem, registry), DeviceFacts(id=NO_DEVICE, archs=()))]
        if not refusals_too:
            decisions = [(d.insisted if isinstance(d, Unsupported) else d, device) for d, device in decisions]
            _refuse_pinned(pinned, [d for d, _ in decisions])
    choices = _ranked(decisions, registry.preference)
    refused = [d for d, _ in decisions if isinstance(d, Unsupported)]
    return Selection(Trace((*(c.decision for c in choices), *refused)), choices, registry.preference)


def _require_device(backends: Iterable[Backend], found: Mapping[str, Availability], wanted: Wanted) -> None:
    here = {d.id: None for b in backends if b.name in found for d in found[b.name].devices}
    if wanted.device is None or wanted.device in here:
        return
    whys = [found[b.name].why for b in backends if b.name in found]
    of = "" if wanted.backend == AUTO else f" for {wanted.backend}"
    what = f"--device {wanted.device}: no such device{of}"
    why = "; ".join(filter(None, dict.fromkeys(whys))) or f"devices here: {', '.join(here) or 'none'}"
    known = here if ":" in wanted.device else [*here, *device_kinds()]
    help = suggest(wanted.device, known, NameKind.DEVICE, otherwise="")
    help = f"{help} `fmha devices` lists them".lstrip()
    raise EnvironmentProblem(what, code="E021", where="--device", why=why, help=help)


def archs_in_play(backends: Iterable[Backend], found: Mapping[str, Availability], wanted: Wanted) -> list[str]:
    """The architectures among which a kernel is looked for by its name: the wanted one, or all, those here first."""
    if wanted.arch is not None:
        return [wanted.arch]
    present = [a for b in backends if b.name in found for d in found[b.name].devices for a in d.archs]
    return list(dict.fromkeys([*present, *(a for b in backends for a in b.archs())]))


def _ranked(decisions: Sequence[tuple[Decision, DeviceFacts]], preference: Preference) -> tuple[Choice, ...]:
    """The kernels that fit, best first. A rank orders kernels of one backend, so devices and backends come before it.

    A backend counts as confirmed on a device if its best kernel there is for an architecture on which it was confirmed.
    """
    devices = list(dict.fromkeys(device.id for _, device in decisions))
    backends = list(dict.fromkeys(d.backend for d, _ in decisions))
    fit = [Choice(d, device) for d, device in decisions if isinstance(d, Supported)]
    places: dict[tuple[str, str], tuple[bool, bool, int, bool, int, int]] = {}
    for choice in sorted(fit, key=lambda choice: choice.decision.rank):
        id, name = choice.device.id, choice.kernel.backend
        if (id, name) not in places:
            unconfirmed = preference.confirmation(name, choice.kernel.arch) is None
            own = (unconfirmed, preference.place(name), backends.index(name))
            places[id, name] = (id == NO_DEVICE, id == CPU, devices.index(id), *own)
    return tuple(sorted(fit, key=lambda c: (places[c.device.id, c.kernel.backend], c.decision.rank)))


def _asked(backend: Backend, problem: Problem, device: DeviceFacts, arch: str | None) -> Iterator[Decision]:
    facts = device if arch is None else DeviceFacts(**{**vars(device), "archs": (arch,)})
    served = [a for a in facts.archs if a in backend.archs()]
    if not served:
        text = f"{backend.name} has no kernels for {', '.join(facts.archs)}"
        near = sorted(backend.archs(), key=lambda name: apart(facts.archs[0] if facts.archs else "", name))
        reason = Reason("K022", text, f"--arch one of {', '.join(near)}", Severity.PLACE)
        yield Unsupported(backend.name, facts.archs[0] if facts.archs else "", None, (reason,))
        return
    yield from backend.decide(problem, facts)


def promised_by(
    registry: Registry, problem: Problem, kernel: KernelSpec, device: DeviceFacts
) -> frozenset[Invariance] | None:
    """What a kernel promises about a problem that it serves; None if its backend states no promises."""
    backend = registry.backend(kernel.backend)
    return backend.promises(problem, kernel, device) if isinstance(backend, Promising) else None


def _keeping(
    decision: Decision, problem: Problem, device: DeviceFacts, registry: Registry, required: Sequence[Invariance]
) -> Decision:
    """The decision about a kernel that must promise invariances, as far as the problem has something to change."""
    if isinstance(decision, Unsupported):
        return decision
    promised = promised_by(registry, problem, decision.kernel, device)
    asked = (one for one in Invariance if one in required and why_unchangeable(one, problem, device) is None)
    lacking = [one.value for one in asked if one not in (promised or ())]
    if not lacking:
        return decision
    kept = "states no promises" if promised is None else f"promises {', '.join(sorted(promised)) or 'nothing'}"
    text = f"--require {', '.join(lacking)}: the kernel {kept}"
    split = promised_by(registry, replace(problem, splits=1), decision.kernel, device) or frozenset()
    hint = "--splits 1" if {Invariance(name) for name in lacking} <= split else None
    reason = Reason("K032", text, hint, Severity.OPTION)
    return Unsupported(decision.backend, decision.arch, decision.kernel, (reason,))


def _devices_of(
    backend: Backend, availability: Availability, arch: str | None, wanted: Wanted
) -> tuple[list[DeviceFacts], Unsupported | None]:
    """The devices to ask about. If none has the architecture of ``--arch``, one with only that architecture is invented."""
    devices = [d for d in availability.devices if wanted.device in (None, d.id)]
    fitting = [d for d in devices if arch is None or arch in d.archs]
    if fitting:
        return fitting, None
    if wanted.device is not None and not devices:  # another backend has it
        return [], _absent(backend, availability, f"no device {wanted.device}")
    if arch is not None:
        return [DeviceFacts.of_arch(arch)], None
    if wanted.one:
        what = f"{backend.name} has no device here"
        why = availability.why or availability.state.value
        help = availability.help or "--arch A builds for an architecture without a device"
        raise EnvironmentProblem(what, code="E022", where="--backend", why=why, help=help)
    return [], _absent(backend, availability, availability.why or availability.state.value)


def _absent(backend: Backend, availability: Availability, why: str) -> Unsupported:
    reason = Reason("K023", f"{backend.name}: {why}", availability.help, Severity.PLACE)
    return Unsupported(backend.name, "", None, (reason,))


def _not_offered(kernel: KernelSpec, problem: Problem, registry: Registry) -> Unsupported:
    """The refusal of a kernel that was no candidate, by the rules of its backend. A main kernel computes the last pass."""
    rules, (*_, last) = registry.backend(kernel.backend).rules(), problem.passes()
    reasons = reasons_against(rules, last, kernel, DeviceFacts.of_arch(kernel.arch))
    unknown = Reason("K024", "the backend did not offer this kernel for the problem")
    return Unsupported(kernel.backend, kernel.arch, kernel, tuple(reasons) or (unknown,))


def decision_about(
    kernel: str, problem: Problem, selection: Selection, registry: Registry, archs: Iterable[str]
) -> Decision:
    """The decision about the kernel that a text names as ``--kernel`` does; candidates of the selection come first.

    A kernel that was no candidate (another architecture, a stage around the main kernel) is judged by every rule of its
    backend.

    Raises:
        UsageError: unknown or ambiguous.
    """
    prefix = digest_prefix(kernel)
    hits: dict[str, Decision] = {}
    for decision in selection.trace.decisions:
        spec = decision.kernel
        if spec is None:
            continue
        by_digest = bool(prefix) and spec.digest.startswith(prefix)
        if by_digest or kernel in (spec.name, registry.backend(spec.backend).upstream_name(spec)):
            hits.setdefault(spec.digest, decision)
    if len(hits) == 1:
        return next(iter(hits.values()))
    found = find_kernel(registry, registry.backends.values(), kernel, archs)
    assert found is not None  # there is a text
    return _not_offered(found, problem, registry)


def _refuse_pinned(pinned: KernelSpec, decisions: list[Decision]) -> None:
    if any(isinstance(d, Supported) for d in decisions):
        return
    reasons = [r for d in decisions if isinstance(d, Unsupported) for r in d.reasons]
    first = reasons[0]
    what = f"--kernel {pinned.backend} {pinned.arch} {pinned.digest[:8]}: {first.text}"
    why = "; ".join(f"{r.id} {r.text}" for r in reasons)
    raise UnsupportedError(what, code=first.id, where="--kernel", why=why, help=first.hint)

"""``Wanted``: the user's choices, and the backends that ``--backend`` means: one, several to compare, or ``auto``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fmha_cli.discovery.registry import Registry
from fmha_cli.domain.device import CPU, Availability, State
from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.invariance import Invariance
from fmha_cli.domain.protocols import Backend

AUTO, ALL = "auto", "all"
"""Words that replace names."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """The user's choices: ``--backend --arch --device --kernel --require``; None, ``auto`` or nothing leaves it open."""

    backend: str = AUTO
    arch: str | None = None
    device: str | None = None
    kernel: str | None = None
    require: tuple[Invariance, ...] = ()

    @property
    def several(self) -> bool:
        """Whether backends are compared: ``all``, or more than one name."""
        return self.backend == ALL or "," in self.backend

    @property
    def one(self) -> bool:
        """Whether one backend is named, which must then be here."""
        return self.backend != AUTO and not self.several

    @property
    def names(self) -> tuple[str, ...]:
        """The names, as given; none for ``auto`` and ``all``.

        Raises:
            UsageError: E002, an empty name, a name twice, or a word that must stand alone, among names.
        """
        if self.backend in (AUTO, ALL):
            return ()
        names = tuple(map(str.strip, self.backend.split(",")))
        twice = next((name for name in names if names.count(name) > 1), None)
        if "" in names:
            raise self._malformed("an empty name", "NAME, or NAME,NAME")
        if {AUTO, ALL} & {*names}:
            raise self._malformed("auto and all stand alone", "names, or one of these words")
        if twice is not None:
            raise self._malformed(f"{twice} twice", "each backend once; bench --ab K K times a kernel against itself")
        return names

    def _malformed(self, what: str, help: str) -> UsageError:
        return UsageError(f"--backend {self.backend}: {what}", code="E002", where="--backend", help=help)


def named_backends(registry: Registry, text: str | None) -> tuple[Backend, ...]:
    """The backends that a text names, in its order; for ``auto``, ``all`` and no text every backend, the preferred ones first.

    Raises:
        UsageError, EnvironmentProblem: as ``Wanted.names`` and ``Registry.backend``.
    """
    names = Wanted(backend=text or AUTO).names
    if names:
        return tuple(registry.backend(name) for name in names)
    return tuple(registry.backends[name] for name in registry.preference.sorted(registry.backends))


def wanted_backends(registry: Registry, wanted: Wanted) -> tuple[Backend, ...]:
    """The backends that were named, in their order, or all that ``auto`` may choose, the preferred ones first.

    Raises:
        UsageError, EnvironmentProblem: as ``named_backends``.
    """
    found = named_backends(registry, wanted.backend)
    if wanted.backend != AUTO:
        return found
    named = wanted.kernel.partition(":")[0] if wanted.kernel else None
    return tuple(b for b in found if b.automatic or b.name == named)


@dataclass(frozen=True)
class Contenders:
    """The backends that are compared, in the order of their rows.

    Attributes:
        device: the device to compare on; None leaves it to each backend.
        place: the device or the architecture on which ``all`` compares; None for names.
        left_out: backends of ``all`` that are not compared -> why.
    """

    names: tuple[str, ...]
    device: str | None = None
    place: str | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str | None:
        """What ``all`` means here, in one line; None for names."""
        if self.place is None:
            return None
        alike: dict[str, list[str]] = {}
        for name, why in self.left_out.items():
            alike.setdefault(why, []).append(name)
        rest = "; ".join(f"{', '.join(names)} ({why})" for why, names in alike.items())
        return f"--backend all on {self.place}: {', '.join(self.names)}" + (f"; left out: {rest}" if rest else "")


def contenders(registry: Registry, found: Mapping[str, Availability], wanted: Wanted) -> Contenders:
    """The backends that ``--backend a,b`` or ``--backend all`` compares.

    ``all`` compares on one device: that of ``--device``, else the first GPU for which a backend has kernels, else the
    CPU. With ``--arch`` and no ``--device`` it compares the backends that have kernels for the architecture. Other
    backends are left out with the reason, unless that would leave none.

    Args:
        found: each wanted backend's probe.

    Raises:
        UsageError, EnvironmentProblem: as ``wanted_backends``.
    """
    backends = wanted_backends(registry, wanted)
    names = tuple(backend.name for backend in backends)
    if wanted.backend != ALL:
        return Contenders(names, wanted.device)
    if wanted.arch is not None and wanted.device is None:
        device, place = None, wanted.arch
        whys = {b.name: None if place in b.archs() else f"no kernels for {place}" for b in backends}
    else:
        device = place = wanted.device or _first_device(backends, found)
        whys = {b.name: _why_not(b, found.get(b.name), place) for b in backends}
    left_out = {name: why for name, why in whys.items() if why is not None}
    if len(left_out) == len(names):
        return Contenders(names, device, place)
    return Contenders(tuple(name for name in names if name not in left_out), device, place, left_out)


def _first_device(backends: tuple[Backend, ...], found: Mapping[str, Availability]) -> str:
    """The id of the first GPU for which some backend has kernels, else of the CPU."""
    here = ((b, device) for b in backends if b.name in found for device in found[b.name].devices)
    return next((d.id for b, d in here if d.accelerator and {*d.archs} & {*b.archs()}), CPU)


def _why_not(backend: Backend, found: Availability | None, id: str) -> str | None:
    """Why a backend has nothing for a device; None if it has kernels for it."""
    devices = () if found is None else found.devices
    device = next((device for device in devices if device.id == id), None)
    if device is not None:
        return None if {*device.archs} & {*backend.archs()} else f"no kernels for {', '.join(device.archs)}"
    if devices:
        return f"it runs on {', '.join(device.id for device in devices)}"
    return "no device here" if found is None or found.state is State.NO_DEVICE or not found.why else found.why

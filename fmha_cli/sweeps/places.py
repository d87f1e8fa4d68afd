"""Places: the devices of ``--devices``, and which of them are equal.

Devices that every backend describes with the same words are of one kind. They share the rows of a sweep; each kind gets every
row once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from fmha_cli.discovery.registry import Registry
from fmha_cli.discovery.wanted import Wanted, wanted_backends
from fmha_cli.domain.device import CPU, Availability, DeviceFacts, is_emulated
from fmha_cli.domain.errors import EnvironmentProblem, UsageError
from fmha_cli.run.probing import probe_backends
from fmha_cli.run.supervisor import Supervisor

ALL = "all"
_ITEM = re.compile(r"([^*\s]+)(?:\*([1-9][0-9]{0,2}))?")


@dataclass(frozen=True, kw_only=True)
class NamedDevice:
    """A device of ``--devices``; of an emulated one there may be several, and several workers may share one that times nothing."""

    device: str
    copies: int = 1


@dataclass(frozen=True, kw_only=True)
class PlaceKind:
    """Equal devices.

    Attributes:
        first: the id of one of them, for which the rows are planned.
        found: the answers of the backends on which the plan rests.
    """

    first: str
    found: Mapping[str, Availability]


@dataclass(frozen=True, kw_only=True)
class WorkerPlace:
    """Where one worker works.

    Attributes:
        device: the id of its device.
        name: for people: the id, with a number where a device is emulated several times, or shared.
        kind: number of the kind of its device.
        host: the name of the machine; empty for this one.
    """

    device: str
    name: str
    kind: int
    host: str = ""

    @property
    def shared(self) -> bool:
        """Whether it is one of several places on one real device."""
        return self.name != self.device and not is_emulated(self.device)

    @property
    def lease(self) -> str:
        """The name of its lease: each emulation of a device has its own."""
        return self.device if self.shared else self.name

    @property
    def text(self) -> str:
        """The place for people."""
        return f"{self.name} on {self.host}" if self.host else self.name


def parse_devices(text: str, *, shared: bool = False) -> tuple[NamedDevice, ...]:
    """The value of ``--devices``: ``all`` (then nothing), or ids with commas; ``emu:ARCH*N`` emulates a device N times.

    Args:
        shared: nothing is timed, so several workers may use one real device: ``cuda:0*4``.

    Raises:
        UsageError: E002, an empty id, a device twice, several workers that time on one, ``all`` among ids.
    """
    if text.strip() == ALL:
        return ()
    found: list[NamedDevice] = []
    for word in map(str.strip, text.split(",")):
        match = _ITEM.fullmatch(word)
        if match is None or match[1] == ALL:
            raise _malformed(text, "all, or ids with commas: cuda:0,cuda:1", "all stands alone" if match else None)
        if match[2] and not shared and not is_emulated(match[1]):
            why = f"{match[1]} is one device, and one worker at a time times kernels on it"
            raise _malformed(text, why, "--step validate lets several workers share a device")
        if any(one.device == match[1] for one in found):
            raise _malformed(text, f"{match[1]} is there twice", f"{match[1]}*2" if is_emulated(match[1]) else None)
        found.append(NamedDevice(device=match[1], copies=int(match[2] or 1)))
    return tuple(found)


def _malformed(text: str, why: str, help: str | None = None) -> UsageError:
    return UsageError(f"--devices {text}", code="E002", where="--devices", why=why, help=help)


def local_places(
    asked: Sequence[NamedDevice], registry: Registry, wanted: Wanted, supervisor: Supervisor
) -> tuple[tuple[PlaceKind, ...], tuple[WorkerPlace, ...]]:
    """The devices of this machine, by their kinds.

    Args:
        asked: none for every accelerator; without an accelerator, for every device that was found.
        supervisor: whose worker probes.

    Raises:
        EnvironmentProblem: X062, there is no such device; Z001, Z002, no such emulated device.
    """
    backends = wanted_backends(registry, wanted)
    real = [one for one in asked if not is_emulated(one.device)]
    found = probe_backends(registry, backends, supervisor) if real or not asked else {}
    chosen = asked or [NamedDevice(device=device) for device in _every(found)]
    missing = [one.device for one in chosen if not is_emulated(one.device) and not described(found, one.device)]
    if missing or not chosen:
        what = f"no device {', '.join(missing)}" if missing else "no device is here"
        there = ", ".join(_ids(found)) or "none"
        why = f"found: {there}"
        raise EnvironmentProblem(what, code="X062", where="--devices", why=why, help="`fmha devices` says why")
    return _of_kinds(
        (one, probe_backends(registry, backends, supervisor, one.device) if is_emulated(one.device) else found)
        for one in chosen
    )


def places_here(text: str, registry: Registry, wanted: Wanted) -> tuple[WorkerPlace, ...]:
    """The devices of this machine that ``--devices`` names.

    Raises:
        UsageError, EnvironmentProblem: as ``parse_devices`` and ``local_places``.
    """
    with Supervisor() as supervisor:
        return local_places(parse_devices(text), registry, wanted, supervisor)[1]


def _of_kinds(
    found: Iterable[tuple[NamedDevice, Mapping[str, Availability]]],
) -> tuple[tuple[PlaceKind, ...], tuple[WorkerPlace, ...]]:
    kinds: dict[object, tuple[int, PlaceKind]] = {}
    places = []
    for one, answers in found:
        alike = described(answers, one.device)
        number, _ = kinds.setdefault(alike, (len(kinds), PlaceKind(first=one.device, found=answers)))
        for copy in range(1, one.copies + 1):
            name = f"{one.device}#{copy}" if one.copies > 1 or is_emulated(one.device) else one.device
            places.append(WorkerPlace(device=one.device, name=name, kind=number))
    return tuple(kind for _, kind in kinds.values()), tuple(places)


def described(found: Mapping[str, Availability], id: str) -> tuple[tuple[str, DeviceFacts], ...]:
    """A device in the words of each backend that has it, without its id and its settings; devices of one kind have the same."""
    return tuple(
        (name, replace(device, id="", settings=()))
        for name, answer in sorted(found.items())
        for device in answer.devices
        if device.id == id
    )


def _ids(found: Mapping[str, Availability]) -> list[str]:
    return list(dict.fromkeys(device.id for answer in found.values() for device in answer.devices))


def _every(found: Mapping[str, Availability]) -> list[str]:
    """Every accelerator; without one, every device."""
    devices = [device for answer in found.values() for device in answer.devices]
    return list(dict.fromkeys(device.id for device in devices if device.accelerator)) or _ids(found)


def timed_alone(places: Sequence[WorkerPlace]) -> None:
    """For ``bench``: timing kernels on the processor needs all of it.

    Raises:
        UsageError: E002, the processor among other devices.
    """
    devices = {place.device for place in places}
    if CPU in devices and len(devices) > 1:
        why = "rows on the processor are timed on a machine that does nothing else"
        help = "--devices cpu in a sweep of its own, or --step validate"
        raise UsageError("--devices cpu beside others", code="E002", where="--devices", why=why, help=help)

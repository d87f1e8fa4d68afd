"""``--devices``: what it takes, and which devices are of one kind."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from fmha_cli.domain.device import Availability, DeviceFacts, State
from fmha_cli.domain.errors import EnvironmentProblem, UsageError
from fmha_cli.sweeps import places
from fmha_cli.sweeps.places import NamedDevice, PlaceKind, WorkerPlace, parse_devices, timed_alone


def here(**devices: tuple[DeviceFacts, ...]) -> Mapping[str, Availability]:
    """What backends found."""
    return {name: Availability(state=State.OK, devices=found) for name, found in devices.items()}


def gpu(number: int, name: str = "H100") -> DeviceFacts:
    return DeviceFacts(id=f"cuda:{number}", archs=("sm_90a",), name=name, units=132)


CPU = DeviceFacts(id="cpu", archs=("x86_64_v4",), name="Zen")


def test_all_and_lists() -> None:
    assert parse_devices("all") == ()
    assert parse_devices("cuda:0, cuda:1") == (NamedDevice(device="cuda:0"), NamedDevice(device="cuda:1"))
    assert parse_devices("emu:gfx942*4") == (NamedDevice(device="emu:gfx942", copies=4),)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "all, or ids"),
        ("cuda:0,", "all, or ids"),
        ("cuda:0,all", "all, or ids"),
        ("cuda:0,cuda:0", "twice"),
        ("cuda:0*2", "one device"),
        ("emu:gfx942*0", "all, or ids"),
        ("emu:gfx942,emu:gfx942", "twice"),
    ],
)
def test_what_is_no_list_of_devices(text: str, why: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_devices(text)
    assert why in str(caught.value.why)


def test_workers_that_time_nothing_share_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    assert parse_devices("cuda:0*2,cpu", shared=True) == (
        NamedDevice(device="cuda:0", copies=2),
        NamedDevice(device="cpu"),
    )
    with pytest.raises(UsageError):
        parse_devices("cuda:0*2,cuda:0", shared=True)
    _, there = found_places(monkeypatch, here(flash_attn=(gpu(0), gpu(1))), "cuda:0*2,cuda:1", shared=True)
    assert [(place.name, place.lease, place.shared) for place in there] == [
        ("cuda:0#1", "cuda:0", True),
        ("cuda:0#2", "cuda:0", True),
        ("cuda:1", "cuda:1", False),
    ]


def found_places(
    monkeypatch: pytest.MonkeyPatch, found: Mapping[str, Availability], asked: str, *, shared: bool = False
) -> tuple[tuple[PlaceKind, ...], tuple[WorkerPlace, ...]]:
    """The places on a machine where backends found this."""
    monkeypatch.setattr(places, "wanted_backends", lambda registry, wanted: ())
    monkeypatch.setattr(places, "probe_backends", lambda registry, backends, supervisor, device=None: found)
    nothing: object = None
    return places.local_places(parse_devices(asked, shared=shared), nothing, nothing, nothing)  # type: ignore[arg-type]


def test_equal_devices_are_of_one_kind_in_the_words_of_every_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    found = here(flash_attn=(gpu(0), gpu(1), gpu(2)), cudnn=(gpu(0), gpu(1)))
    kinds, there = found_places(monkeypatch, found, "all")
    assert [kind.first for kind in kinds] == ["cuda:0", "cuda:2"]
    assert [(place.name, place.kind) for place in there] == [("cuda:0", 0), ("cuda:1", 0), ("cuda:2", 1)]


def test_all_means_every_accelerator_and_else_every_device(monkeypatch: pytest.MonkeyPatch) -> None:
    _, there = found_places(monkeypatch, here(cpu=(CPU,), flash_attn=(gpu(0),)), "all")
    assert [place.device for place in there] == ["cuda:0"]
    _, there = found_places(monkeypatch, here(cpu=(CPU,)), "all")
    assert [place.device for place in there] == ["cpu"]


def test_copies_of_an_emulated_device_have_names_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    emulated = DeviceFacts(id="emu:gfx942", archs=("gfx942",))
    kinds, there = found_places(monkeypatch, here(ck_tile=(emulated,)), "emu:gfx942*2")
    assert len(kinds) == 1
    assert [(place.lease, place.shared) for place in there] == [(f"emu:gfx942#{n}", False) for n in (1, 2)]
    assert [(place.device, place.name) for place in there] == [("emu:gfx942", f"emu:gfx942#{n}") for n in (1, 2)]


@pytest.mark.parametrize("asked", ["cuda:7", "cuda:0,cuda:7"])
def test_a_device_that_is_not_here(monkeypatch: pytest.MonkeyPatch, asked: str) -> None:
    with pytest.raises(EnvironmentProblem, match="no device cuda:7") as caught:
        found_places(monkeypatch, here(flash_attn=(gpu(0),)), asked)
    assert caught.value.why == "found: cuda:0"


def test_the_processor_is_timed_alone() -> None:
    cpu, other = (WorkerPlace(device=device, name=device, kind=0) for device in ("cpu", "cuda:0"))
    timed_alone([cpu])
    timed_alone([other])
    with pytest.raises(UsageError):
        timed_alone([cpu, other])

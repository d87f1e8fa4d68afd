"""What ``--backend`` means: a name, names to compare, ``auto``, ``all``; and what ``all`` leaves out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from fmha_cli.discovery.hookspecs import hookimpl
from fmha_cli.discovery.preference import Preference, PreferredPlace
from fmha_cli.discovery.registry import Registry
from fmha_cli.discovery.wanted import Wanted, contenders, named_backends, wanted_backends
from fmha_cli.domain.device import Availability, DeviceFacts, State
from fmha_cli.domain.errors import UsageError
from tests.support.fakes.paper_backends import PaperBackend, checked

GPU = DeviceFacts(id="cuda:0", archs=("sm_90a", "sm_90"))
SECOND = DeviceFacts(id="cuda:1", archs=("sm_80",))
ODD = DeviceFacts(id="hip:0", archs=("gfx0",))
CPU = DeviceFacts(id="cpu", archs=("x86_64_v4", "generic"))
ARCHS: Mapping[str, tuple[str, ...]] = {
    "host": ("x86_64_v4",),
    "fast": ("sm_90",),
    "new": ("sm_90a",),
    "old": ("sm_80",),
    "odd": ("gfx1",),
    "plugin": ("generic",),
}
ORDER = tuple(PreferredPlace(backend=name, source="s") for name in ("odd", "fast", "new", "old", "host"))


def registry_of(names: Sequence[str]) -> Registry:
    class Module:
        @hookimpl
        def fmha_register_backends(self) -> list[Any]:
            return [checked(PaperBackend(n, ARCHS.get(n, ("generic",)), automatic=n != "plugin")) for n in names]

    entry = SimpleNamespace(name="paper", value="paper", dist=None, load=Module)
    return Registry({}, lambda: [entry], preference=lambda: Preference(ORDER))  # type: ignore[list-item]


REGISTRY = registry_of(list(ARCHS))
HERE = {
    "host": Availability(state=State.OK, devices=(CPU,)),
    "fast": Availability(state=State.OK, devices=(GPU, SECOND)),
    "new": Availability(state=State.OK, devices=(GPU, SECOND)),
    "old": Availability(state=State.OK, devices=(GPU, SECOND)),
    "odd": Availability(state=State.OK, devices=(ODD,)),
    "plugin": Availability(state=State.OK, devices=(CPU,)),
}
NO_GPU = HERE | dict.fromkeys(("fast", "new", "old", "odd"), Availability(state=State.NO_DEVICE, why="no GPU"))


@pytest.mark.parametrize(
    ("text", "names", "several", "one"),
    [
        ("auto", (), False, False),
        ("all", (), True, False),
        ("host", ("host",), False, True),
        ("old,host", ("old", "host"), True, False),
        ("old, host", ("old", "host"), True, False),
    ],
)
def test_what_a_text_means(text: str, names: tuple[str, ...], several: bool, one: bool) -> None:
    wanted = Wanted(backend=text)
    assert (wanted.names, wanted.several, wanted.one) == (names, several, one)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("host,", "an empty name"),
        (",", "an empty name"),
        ("host,,old", "an empty name"),
        ("host,host", "host twice"),
        ("auto,host", "auto and all stand alone"),
        ("host,all", "auto and all stand alone"),
    ],
)
def test_a_malformed_list_is_refused(text: str, what: str) -> None:
    with pytest.raises(UsageError, match=what) as caught:
        wanted_backends(REGISTRY, Wanted(backend=text))
    assert (caught.value.code, caught.value.where) == ("E002", "--backend")
    assert caught.value.help


def test_every_name_of_a_list_must_exist() -> None:
    with pytest.raises(UsageError, match="--backend hots: no such backend") as caught:
        wanted_backends(REGISTRY, Wanted(backend="old,hots"))
    assert "did you mean host" in str(caught.value.help)


def test_names_keep_their_order_and_words_take_the_preferred_first() -> None:
    def asked(text: str) -> list[str]:
        return [backend.name for backend in wanted_backends(REGISTRY, Wanted(backend=text))]

    assert asked("host,fast") == ["host", "fast"]
    assert asked("auto") == ["odd", "fast", "new", "old", "host"]
    assert asked("all") == ["odd", "fast", "new", "old", "host", "plugin"]
    assert [backend.name for backend in named_backends(REGISTRY, None)] == asked("all")


@pytest.mark.promise("`--backend all` says what it leaves out, and `explain` shows the rows that `bench` would run.")
def test_all_compares_on_the_first_gpu_for_which_something_exists() -> None:
    found = contenders(REGISTRY, HERE, Wanted(backend="all"))
    assert (found.names, found.device, found.place) == (("fast", "new"), "cuda:0", "cuda:0")
    assert dict(found.left_out) == {
        "odd": "it runs on hip:0",
        "old": "no kernels for sm_90a, sm_90",
        "host": "it runs on cpu",
        "plugin": "it runs on cpu",
    }
    assert found.text == (
        "--backend all on cuda:0: fast, new; left out: odd (it runs on hip:0); old (no kernels for sm_90a, sm_90); "
        "host, plugin (it runs on cpu)"
    )


def test_all_compares_on_the_cpu_without_a_gpu() -> None:
    found = contenders(REGISTRY, NO_GPU, Wanted(backend="all"))
    assert (found.names, found.device) == (("host", "plugin"), "cpu")
    assert found.left_out["fast"] == "no device here"  # `fmha devices -v` says why


def test_a_device_or_an_architecture_decides_for_all() -> None:
    on_second = contenders(REGISTRY, HERE, Wanted(backend="all", device="cuda:1"))
    assert (on_second.names, on_second.device) == (("old",), "cuda:1")
    by_arch = contenders(REGISTRY, NO_GPU, Wanted(backend="all", arch="sm_90"))
    assert (by_arch.names, by_arch.device, by_arch.place) == (("fast",), None, "sm_90")
    assert by_arch.left_out["new"] == "no kernels for sm_90"


def test_all_leaves_out_nothing_if_nothing_were_left() -> None:
    found = contenders(REGISTRY, NO_GPU, Wanted(backend="all", arch="sm_70"))
    assert found.names == ("odd", "fast", "new", "old", "host", "plugin")
    assert not found.left_out


def test_names_are_all_compared_wherever_they_run() -> None:
    found = contenders(REGISTRY, NO_GPU, Wanted(backend="plugin,old"))
    assert (found.names, found.device, found.text) == (("plugin", "old"), None, None)


@pytest.mark.parametrize("name", ["all", "auto", "a,b"])
def test_no_plugin_takes_a_name_that_means_something_else(name: str) -> None:
    registry = registry_of([name, "host"])
    assert list(registry.backends) == ["host"]
    assert any("another meaning" in fault.what for fault in registry.faults)

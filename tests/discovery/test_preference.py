"""The order in which ``auto`` takes backends: data with sources, confirmations that their records bear out, and nothing else."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fmha_cli.discovery import registry as registries
from fmha_cli.discovery.builtins import BUILTINS
from fmha_cli.discovery.hookspecs import hookimpl
from fmha_cli.discovery.preference import (
    FILE,
    SCHEMA,
    DeviceConfirmation,
    Preference,
    PreferredPlace,
    load_preference,
    preference_of,
)
from fmha_cli.discovery.registry import Registry
from fmha_cli.discovery.select import Selection, select
from fmha_cli.discovery.wanted import Wanted
from fmha_cli.discovery.why import backend_because, because
from fmha_cli.domain.arch import arch_document
from fmha_cli.domain.decision import Decision, Supported
from fmha_cli.domain.device import Availability, DeviceFacts, State
from fmha_cli.domain.errors import InternalError
from fmha_cli.domain.problem import Problem
from tests.support.fakes.paper_backends import PaperBackend, checked
from tools.confirmed import confirmations
from tools.result_data import data_of

ROOT = Path(__file__).resolve().parents[2]
HOPPER = DeviceFacts(id="cuda:0", archs=("sm_90a", "sm_90"), name="a GPU")
AMPERE = DeviceFacts(id="cuda:1", archs=("sm_80",), name="an older GPU")
HOST = DeviceFacts(id="cpu", archs=("generic",))
NAMES = ("one", "two", "three")
ORDER = tuple(PreferredPlace(backend=name, source=f"the source of {name}") for name in NAMES)


def confirmed(backend: str, arch: str) -> DeviceConfirmation:
    return DeviceConfirmation(
        backend=backend, arch=arch, device="a GPU", passed=12, record="results/data/paper.json.xz"
    )


def registry_of(backends: Iterable[PaperBackend], preference: Preference) -> Registry:
    class Module:
        @hookimpl
        def fmha_register_backends(self) -> list[Any]:
            return [checked(backend) for backend in backends]

    entry = SimpleNamespace(name="paper", value="paper", dist=None, load=Module)
    return Registry({}, lambda: [entry], preference=lambda: preference)  # type: ignore[list-item]


def chosen(
    preference: Preference,
    names: Sequence[str] = NAMES,
    devices: Sequence[DeviceFacts] = (HOPPER,),
    archs: tuple[str, ...] = ("sm_90a", "sm_90", "sm_80", "generic"),
    **wanted: Any,
) -> Selection:
    found = {name: Availability(state=State.OK, devices=tuple(devices)) for name in names}
    registry = registry_of([PaperBackend(name, archs) for name in names], preference)
    return select(Problem.of(), registry, found, Wanted(**wanted))


def backends_of(selection: Selection) -> list[str]:
    return list(dict.fromkeys(choice.kernel.backend for choice in selection.choices))


@pytest.mark.promise("Data with sources order the backends, confirmed kernels come first, and `explain` says why.")
@pytest.mark.parametrize("names", list(permutations(NAMES)))
def test_the_order_of_the_data_decides_and_not_that_of_the_plugins(names: tuple[str, ...]) -> None:
    for order in permutations(ORDER):
        expected = [place.backend for place in order]
        assert backends_of(chosen(Preference(order), names)) == expected
        assert backends_of(chosen(Preference(order), names, backend=",".join(names))) == expected


def test_the_table_of_the_builtin_backends_orders_nothing() -> None:
    paths = dict(reversed(list(registries.BUILTINS.items())))
    turned, plain = Registry(paths, list), Registry(entries=list)
    found = {name: Availability(state=State.OK, devices=(HOPPER, HOST)) for name in paths}
    for wanted in (Wanted(), Wanted(arch="sm_90"), Wanted(arch="generic")):
        one, other = (select(Problem.of(), r, found, wanted) for r in (turned, plain))
        assert one.best is not None
        assert [choice.kernel for choice in one.choices] == [choice.kernel for choice in other.choices]


def test_two_backends_of_this_installation_compete_for_one_device() -> None:
    found = {name: Availability(state=State.OK, devices=(HOPPER,)) for name in ("flash_attn", "mem_efficient")}
    known = load_preference()
    later = Preference(known.order, tuple(confirmed("mem_efficient", arch) for arch in HOPPER.archs))
    for preference, first in ((known, "flash_attn"), (later, "mem_efficient")):
        registry = Registry(entries=list, preference=lambda found=preference: found)  # type: ignore[misc]
        selection = select(Problem.of(seqlen=64), registry, found, Wanted(backend="mem_efficient,flash_attn"))
        assert backends_of(selection)[0] == first
        assert len(backends_of(selection)) == 2


@pytest.mark.promise("Data with sources order the backends, confirmed kernels come first, and `explain` says why.")
def test_a_confirmed_backend_comes_first_on_its_architecture_alone() -> None:
    preference = Preference(ORDER, (confirmed("three", "sm_90a"), confirmed("two", "sm_80")))
    assert backends_of(chosen(preference)) == ["three", "one", "two"]
    assert backends_of(chosen(preference, devices=(AMPERE,))) == ["two", "one", "three"]
    assert backends_of(chosen(preference, arch="sm_90")) == ["one", "two", "three"]
    both = Preference(ORDER, (confirmed("three", "sm_90a"), confirmed("two", "sm_90a")))
    assert backends_of(chosen(both)) == ["two", "three", "one"]


def test_what_confirms_is_the_architecture_of_the_best_kernel() -> None:
    """A backend keeps its own order of kernels, so a confirmation of its second choice moves nothing."""

    class Ranked(PaperBackend):
        def decide(self, problem: Problem, device: DeviceFacts) -> Iterator[Decision]:
            for decision in super().decide(problem, device):
                late = decision.arch != "sm_90a"
                yield replace(decision, rank=(late, *decision.rank)) if isinstance(decision, Supported) else decision

    found = {name: Availability(state=State.OK, devices=(HOPPER,)) for name in ("one", "two")}
    backends = [Ranked(name, ("sm_90a", "sm_90")) for name in ("one", "two")]
    for arch, names in (("sm_90", ["one", "two"]), ("sm_90a", ["two", "one"])):
        preference = Preference(ORDER, (confirmed("two", arch),))
        selection = select(Problem.of(), registry_of(backends, preference), found, Wanted())
        assert backends_of(selection) == names
        ranks = [choice.decision.rank for choice in selection.choices if choice.kernel.backend == "two"]
        assert ranks == sorted(ranks)


def test_the_first_gpu_comes_first_whoever_serves_it() -> None:
    preference = Preference(ORDER, (confirmed("one", "sm_80"),))
    assert [c.device.id for c in chosen(preference, devices=(HOPPER, AMPERE, HOST)).choices][::6] == [
        *("cuda:0", "cuda:0"),
        "cuda:1",
        "cpu",
    ]


def test_backends_outside_the_order_come_last_as_they_were_found() -> None:
    assert backends_of(chosen(Preference(ORDER), ("z", "y", "two", "a"))) == ["two", "z", "y", "a"]
    sentence = backend_because(chosen(Preference(ORDER), ("z", "y")))
    assert sentence == "z, not y: neither is in the default order of arch_specs/_preference.json, and z was found first"


@pytest.mark.promise("Data with sources order the backends, confirmed kernels come first, and `explain` says why.")
@pytest.mark.parametrize(
    ("rows", "arch", "sentence"),
    [
        (
            [],
            "sm_90a",
            "one, not two: it comes before two in the default order, and gpu_check confirmed neither on sm_90a "
            "(arch_specs/_preference.json: the source of one)",
        ),
        (
            [("two", "sm_90a")],
            "sm_90a",
            "two, not one: gpu_check confirmed its kernels on sm_90a (12 rows on a GPU, results/data/paper.json.xz), and not "
            "those of one on sm_90a",
        ),
        (
            [("two", "sm_90a"), ("one", "sm_90a")],
            "sm_90a",
            "one, not two: it comes before two in the default order, and gpu_check confirmed both on sm_90a "
            "(arch_specs/_preference.json: the source of one)",
        ),
    ],
)
def test_one_sentence_says_why_this_backend(rows: list[tuple[str, str]], arch: str, sentence: str) -> None:
    preference = Preference(ORDER, tuple(confirmed(*row) for row in rows))
    selection = chosen(preference, ("one", "two"))
    assert backend_because(selection) == sentence
    alone = chosen(preference, ("one",))
    assert backend_because(alone) is None
    assert because(alone) is not None


def test_places_come_before_preferences_in_the_sentence() -> None:
    here = chosen(Preference(ORDER), ("one",), devices=(HOPPER, HOST))
    assert backend_because(here) is None  # it has a kernel for the CPU too, but no other backend serves
    found = {
        "one": Availability(state=State.OK, devices=(HOPPER,)),
        "two": Availability(state=State.OK, devices=(HOST,)),
    }
    backends = [PaperBackend("one", ("sm_90a",)), PaperBackend("two", ("generic",))]
    for order in (ORDER, ORDER[::-1]):
        selection = select(Problem.of(), registry_of(backends, Preference(order)), found, Wanted())
        assert backend_because(selection) == "one, not two: cuda:0 comes before the CPU"


def test_every_builtin_backend_has_a_place_and_every_place_a_source() -> None:
    preference = load_preference()
    assert set(BUILTINS) == set(preference.names)
    assert all(len(place.source) > 20 for place in preference.order)


@pytest.mark.promise("Data with sources order the backends, confirmed kernels come first, and `explain` says why.")
def test_every_confirmation_is_what_its_record_says() -> None:
    for row in load_preference().confirmed:
        record = json.loads((ROOT / row.record).read_text("utf-8"))
        assert vars(row) in confirmations(record, row.record)


RECORD: dict[str, Any] = {
    "device": {"name": "a GPU", "archs": ["sm_90a", "sm_90"]},
    "notes": {"arch": "sm_90"},
    "vendor": "nvidia",
    "whole": True,
    "rows": [
        {"part": "cases", "verdict": "PASSED", "backend": "one"},
        {"part": "random", "verdict": "PASSED", "backend": "one"},
        {"part": "speed", "verdict": "NOT_RUN", "backend": "one"},
        {"part": "cases", "verdict": "PASSED", "backend": "two", "arch": "sm_90a"},
    ],
}


def test_a_record_confirms_what_passed_whole() -> None:
    expected = [("one", "sm_90", 2), ("two", "sm_90a", 1)]
    found = [preference_of(document(confirmed=[row])).confirmed[0] for row in confirmations(RECORD, "docs/a.json")]
    assert [(row.backend, row.arch, row.passed) for row in found] == expected


@pytest.mark.parametrize("verdict", ["NOT_RUN", "WRONG", "MISTRUSTED", "UNSUPPORTED"])
@pytest.mark.parametrize("row", [0, 1])
def test_one_row_that_did_not_pass_confirms_nothing(row: int, verdict: str) -> None:
    record = copy.deepcopy(RECORD)
    record["rows"][row]["verdict"] = verdict
    assert [found["backend"] for found in confirmations(record, "docs/a.json")] == ["two"]


def test_a_part_of_a_check_confirms_nothing() -> None:
    assert confirmations({**RECORD, "whole": False}, "docs/a.json") == []
    assert confirmations({key: RECORD[key] for key in RECORD if key != "whole"}, "docs/a.json") == []


def test_amds_check_has_one_backend_and_no_parts() -> None:
    device, cases = {"name": "a GPU", "archs": ["gfx942"]}, [{"verdict": "PASSED"}] * 3
    (row,) = confirmations({"device": device, "vendor": "amd", "cases": cases}, "docs/a.json")
    assert (row["backend"], row["arch"], row["passed"]) == ("ck_tile", "gfx942", 3)


def test_a_record_without_a_device_confirms_nothing() -> None:
    assert confirmations({**RECORD, "device": None}, "docs/a.json") == []
    document = data_of("nvidia")
    assert (confirmations(document, "x") == []) == (document["device"] is None)


def document(**changes: Any) -> dict[str, Any]:
    return {**arch_document(FILE, SCHEMA), "confirmed": [], **changes}


@pytest.mark.parametrize(
    "changes",
    [
        {"order": [{"backend": "one"}]},
        {"order": [{"backend": "one", "source": ""}]},
        {"order": [{"backend": "one", "source": "s", "place": 1}]},
        {"order": [{"backend": "one", "source": "s"}] * 2},
        {"confirmed": [{**vars(confirmed("one", "sm_90")), "passed": 0}]},
        {"confirmed": [{**vars(confirmed("one", "sm_90")), "record": ""}]},
        {"confirmed": [vars(confirmed("one", "sm_90"))] * 2},
        {"confirmed": None},
    ],
)
def test_damaged_data_is_an_error(changes: dict[str, Any]) -> None:
    with pytest.raises(InternalError, match=r"_preference\.json"):
        preference_of(document(**changes))

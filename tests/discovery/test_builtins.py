"""The table of the built-in backends agrees with the backends, which the table must not import."""

from __future__ import annotations

from importlib import import_module

import pytest

from fmha_cli.discovery.builtins import (
    BUILTINS,
    compared,
    device_kinds,
    export_forms,
    exporter_of,
    own_options,
    revision_option,
)
from fmha_cli.domain.builtin import Use
from fmha_cli.domain.counterpart import Comparable
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.protocols import Catalogued
from fmha_cli.domain.tuning import Exporting


@pytest.mark.parametrize("name", BUILTINS)
def test_an_entry_describes_its_backend(name: str) -> None:
    entry, backend = BUILTINS[name], import_module(BUILTINS[name].path).backend
    assert backend.name == name
    assert isinstance(backend, Comparable) == bool(entry.binaries)
    assert isinstance(backend, Catalogued) == (revision_option(name) is not None)
    assert isinstance(backend, Exporting) == bool(entry.exports)


def test_options_are_found_by_their_use() -> None:
    assert [flag.name for flag in own_options(Use.SOURCES)] == [
        "ck-home",
        "ck-as",
        "fa-home",
        "fa-as",
        "fa3-home",
        "fa3-as",
        "xf-home",
        "xf-as",
    ]
    assert [flag.name for flag in own_options(Use.REVISION)] == ["ck-rev"]
    assert revision_option("a plugin's backend") is None
    assert compared()[0] == "ck_tile"


def test_every_form_of_an_export_has_one_backend() -> None:
    assert len(set(export_forms())) == len(export_forms()) == 2
    assert {exporter_of(form) for form in export_forms()} == {"ck_tile"}


def test_help_names_every_kind_of_device() -> None:
    assert device_kinds() == ("cpu", "cuda:N", "hip:N")


@pytest.mark.parametrize(
    ("id", "accelerator"), [("cuda:0", True), ("hip:3", True), ("cpu", False), ("none", False), ("emu:gfx942", False)]
)
def test_accelerators_are_numbered(id: str, accelerator: bool) -> None:
    assert DeviceFacts(id=id, archs=()).accelerator is accelerator

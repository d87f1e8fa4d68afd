"""Where a plugin's code is at fault: the member, the file and the line."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import pytest

from fmha_cli.domain.blame import lacking, package_of, place_of, raised
from fmha_cli.domain.emulation import Emulator
from fmha_cli.domain.protocols import Backend, Session

HERE = __name__


@runtime_checkable
class Answering(Protocol):
    name: str

    def answer(self, question: str) -> str:
        """Answers."""

    @property
    def mood(self) -> str:
        """Its mood."""


class Whole:
    name, mood = "whole", "good"

    def answer(self, question: str) -> str:
        return question


class Partial:
    name = "partial"


def _fall(key: str) -> int:
    return {"a": 1}[key]


def test_the_last_place_in_the_package_is_named_not_that_of_a_library_below() -> None:
    with pytest.raises(KeyError) as caught:
        _fall("b")
    line = _fall.__code__.co_firstlineno + 1
    assert raised(caught.value, HERE) == f"KeyError: 'b' in _fall ({__file__}:{line})"
    with pytest.raises(ValueError, match="unknown url type") as below:
        __import__("urllib.request").request.urlopen("nowhere")
    assert "test_the_last_place" in str(place_of(below.value, HERE))
    assert place_of(caught.value, "another_package") is None
    assert raised(caught.value, None) == "KeyError: 'b'"


def test_a_module_that_does_not_parse_names_its_own_line() -> None:
    with pytest.raises(SyntaxError) as caught:
        compile("x = 1\ndef f(:\n", "/plugins/torn.py", "exec")
    assert place_of(caught.value, "torn") == "(/plugins/torn.py:2)"


@pytest.mark.parametrize(
    ("entry", "package"),
    [("mine", "mine"), ("mine.sub:backend", "mine"), ("fmha_cli.backends.cpu", "fmha_cli.backends.cpu")],
)
def test_the_package_of_an_entry_point(entry: str, package: str) -> None:
    assert package_of(entry) == package


def test_every_missing_member_is_named_with_its_arguments() -> None:
    assert lacking(Whole(), Answering) is None
    line = f"{__file__}:{_line_of('class Partial')}"
    assert (
        lacking(Partial(), Answering) == f"Partial ({line}) is not a Answering: it lacks answer(self, question), mood"
    )
    said = lacking(Whole, Answering)
    assert said is not None
    assert said.endswith("is a class; Answering means an instance of it")


def _line_of(text: str) -> int:
    with open(__file__, encoding="utf-8") as file:
        return next(number for number, line in enumerate(file, 1) if line.startswith(text))


@pytest.mark.parametrize("protocol", [Backend, Emulator, Session])
def test_an_empty_object_lacks_every_member_of_the_real_protocols(protocol: type) -> None:
    said = lacking(object(), protocol)
    assert said is not None
    members = {name for name in (*protocol.__annotations__, *vars(protocol)) if not name.startswith("_")}
    assert members <= set(said.replace("(", " ").replace(",", " ").split()), members

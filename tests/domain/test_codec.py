"""The codec: every kind of member round-trips, strict reading reports paths, and annotations add constraints."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import pytest

from fmha_cli.domain.codec import DecodeError, from_json, json_of, taken_from, to_json
from fmha_cli.domain.members import Hidden, Key, Then


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Leaf:
    name: str
    colour: Colour
    size: tuple[int, int] = (0, 0)


@dataclass(frozen=True, kw_only=True)
class Tree:
    schema: Literal["tree/1"] = "tree/1"
    leaves: tuple[Leaf, ...]
    first: Leaf | None = None
    path: Path | None = None
    weights: Mapping[str, float] = field(default_factory=dict)
    by_colour: Mapping[Colour, Leaf | None] = field(default_factory=lambda: dict.fromkeys(Colour))
    value: int | float | bool | str | None = None
    anything: Any = None
    pairs: tuple[tuple[str, tuple[int, ...]], ...] = ()
    good: Annotated[bool, "a description", Then("count")] = True
    from_: Annotated[int, Key("from")] = 1
    secret: Annotated[int, Hidden()] = 7

    @property
    def count(self) -> int:
        return len(self.leaves)


TREE = Tree(
    leaves=(Leaf("a", Colour.RED), Leaf("b", Colour.BLUE, (1, 2))),
    first=Leaf("c", Colour.BLUE),
    path=Path("x/y"),
    weights={"a": 1.5},
    by_colour={Colour.RED: None, Colour.BLUE: Leaf("d", Colour.RED)},
    value=2.5,
    anything={"k": [1]},
    pairs=(("p", (1, 2)),),
)


def plain() -> dict[str, Any]:
    return json.loads(json.dumps(to_json(TREE)))  # type: ignore[no-any-return]


def test_every_kind_of_member_comes_back() -> None:
    assert from_json(Tree, plain()) == TREE
    empty = Tree(leaves=())
    assert from_json(Tree, json.loads(json.dumps(to_json(empty)))) == empty


def test_the_form_is_plain() -> None:
    data = plain()
    assert data["leaves"][1] == {"name": "b", "colour": "blue", "size": [1, 2]}
    assert (data["path"], data["by_colour"]["red"], data["count"]) == ("x/y", None, 2)
    assert "secret" not in data


def test_members_stand_in_the_order_of_the_fields() -> None:
    assert list(to_json(TREE))[-3:] == ["good", "count", "from"]


@pytest.mark.parametrize(
    ("path", "value", "text"),
    [
        (("leaves", 1, "size", 1), "x", r"tree\.leaves\[1\]\.size\[1\]: not an integer"),
        (("leaves", 1, "size", 1), True, r"tree\.leaves\[1\]\.size\[1\]: not an integer"),
        (("leaves", 0, "size"), [1], r"tree\.leaves\[0\]\.size: has 1 items instead of 2"),
        (("leaves", 0, "colour"), "green", r"tree\.leaves\[0\]\.colour: 'green' is not a valid Colour"),
        (("leaves", 0, "surprise"), 1, r"tree\.leaves\[0\]: unknown: surprise"),
        (("leaves",), None, r"tree\.leaves: not a list"),
        (("leaves", 0), 3, r"tree\.leaves\[0\]: not an object"),
        (("weights", "a"), "x", r"tree\.weights\.a: not a number"),
        (("weights",), [], r"tree\.weights: not an object"),
        (("by_colour", "green"), None, r"tree\.by_colour: unknown: green"),
        (("by_colour",), {"red": None}, r"tree\.by_colour: lacks blue"),
        (("schema",), "tree/2", r"tree\.schema: not tree/1"),
        (("good",), 1, r"tree\.good: not true or false"),
        (("count",), "two", r"tree\.count: not an integer"),
        (("from",), None, r"tree\.from: not an integer"),
        (("path",), 5, r"tree\.path: not a text"),
        (("value",), [], r"tree\.value: "),
    ],
)
def test_errors_name_the_path(path: tuple[Any, ...], value: Any, text: str) -> None:
    data: Any = plain()
    at = data
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    with pytest.raises(DecodeError, match=rf"\A{text}"):
        from_json(Tree, data, "tree")


def test_a_missing_member_is_an_error_also_where_the_field_has_a_default() -> None:
    data = plain()
    del data["leaves"][0]["size"]
    with pytest.raises(DecodeError, match=r"\Aleaves\[0\]: lacks size\Z"):
        from_json(Tree, data)


@dataclass(frozen=True)
class Positive:
    number: int

    def __post_init__(self) -> None:
        if self.number <= 0:
            raise ValueError("not positive")


def test_what_the_class_refuses_is_an_error_too() -> None:
    with pytest.raises(DecodeError, match=r"\Ap: not positive\Z"):
        from_json(Positive, {"number": 0}, "p")


@dataclass(frozen=True)
class Sum:
    """Encoded as its total; ``from_members`` reads it back."""

    parts: Annotated[tuple[int, ...], Hidden(), Then("total")]

    @property
    def total(self) -> int:
        return sum(self.parts)

    @classmethod
    def from_members(cls, members: Mapping[str, Any]) -> Sum:
        return cls((members["total"],))


def test_a_class_may_read_its_members_itself() -> None:
    assert to_json(Sum((1, 2))) == {"total": 3}
    assert from_json(Sum, {"total": 3}) == Sum((3,))


def test_what_follows_from_other_members_may_be_absent_but_what_a_class_reads_may_not() -> None:
    without = {name: value for name, value in to_json(TREE).items() if name != "count"}
    assert from_json(Tree, without) == TREE
    with pytest.raises(DecodeError, match="lacks total"):
        from_json(Sum, {})


@dataclass(frozen=True)
class Kept:
    json_kept: ClassVar[bool] = True
    sizes: tuple[int, ...]


@dataclass(frozen=True)
class Spelled:
    word: str

    def to_dict(self) -> dict[str, str]:
        return {"spelled": self.word}


def test_a_class_may_write_itself() -> None:
    @dataclass(frozen=True)
    class Holder:
        words: tuple[Spelled, ...]

    assert json_of(Spelled("a")) == {"spelled": "a"}
    assert to_json(Holder((Spelled("a"),))) == {"words": [{"spelled": "a"}]}


def test_kept_values_cannot_be_spoilt() -> None:
    noun = Kept((1, 2))
    to_json(noun)["sizes"].append(3)
    assert to_json(noun) == {"sizes": [1, 2]}
    assert noun == Kept((1, 2))


def test_a_type_without_a_json_form_is_no_member() -> None:
    @dataclass(frozen=True)
    class Odd:
        one: complex

    with pytest.raises(TypeError, match="complex"):
        from_json(Odd, {"one": 1})


def test_an_object_takes_its_fields_from_another() -> None:
    @dataclass(frozen=True)
    class Row:
        name: str
        colour: Annotated[str, Then("first")]

        @property
        def first(self) -> str:
            return self.colour[:1]

    assert taken_from(Leaf("a", Colour.RED), Row, colour="green") == Row("a", "green")
    with pytest.raises(AttributeError, match="name"):
        taken_from(object(), Row, colour="green")


@dataclass(frozen=True)
class Grown:
    json_later: ClassVar[tuple[str, ...]] = ("size",)
    name: str
    size: int = 3


def test_later_members_are_absent_at_their_defaults() -> None:
    assert to_json(Grown("a")) == {"name": "a"}
    assert to_json(Grown("a", 4)) == {"name": "a", "size": 4}
    assert from_json(Grown, {"name": "a"}) == from_json(Grown, {"name": "a", "size": 3}) == Grown("a")
    assert from_json(Grown, {"name": "a", "size": 4}) == Grown("a", 4)
    with pytest.raises(DecodeError, match="lacks name"):
        from_json(Grown, {"size": 4})

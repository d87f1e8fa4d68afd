"""The reader of upstream's API files, on texts with known answers."""

from __future__ import annotations

import pytest

from tests.support.referees.ck_tile.api_text import read_function, split, value_of, walk

TEXT = """
float other(int a) { return 1; }
float fmha_x(traits t, args a, const stream& s) {
    float r = -1; // not a branch
    if(!ready(u)) { return r; }
    auto f = [&](unsigned m) { return blocks(m); };
    if(device_name.compare(0, 4, "gfx9") == 0) {
        if((t.group == false) && (a.n % 64 == 0 /* || true */) && (t.mask == mask_enum::none)) {
            using trait_ = traits_<64, ck_tile::M<true>, (8 > 0), (0 > 0)>;
            r = run<trait_, std::conditional_t<true, x, void>>(s, a);
            return r;
        }
        else if(a.n <= 16 || a.p != nullptr) {
            if constexpr(std::is_same_v<A, B>) { return -1; }
            else { using trait_ = traits_<16>; return go<trait_>(s, a); }
        }
    }
    return r;
}
"""


def names(**values: object) -> dict[str, object]:
    return {
        "true": True,
        "false": False,
        "nullptr": None,
        "mask_enum::none": 0,
        "ready": lambda u: True,
        "u": 0,
        "device_name.compare": lambda start, count, name: int("gfx942"[start : start + count] != name),
        "t.group": False,
        "t.mask": 0,
        "a.n": 64,
        "a.p": None,
        **values,
    }


def test_the_first_branch_that_holds() -> None:
    body = read_function(TEXT, "fmha_x")
    taken = walk(body, names())
    assert taken is not None
    assert taken.arguments("trait_") == ("64", "ck_tile::M<true>", "true", "false")
    assert (taken.returned, "conditional_t<true" in taken.before) == ("r", True)
    small = walk(body, names(**{"a.n": 9}))
    assert small is not None
    assert small.arguments("trait_") == ("16",)


def test_no_branch() -> None:
    body = read_function(TEXT, "fmha_x")
    for values in ({"a.n": 65}, {"t.group": True}, {"t.mask": 1}):
        taken = walk(body, names(**values))
        assert taken is not None
        assert (taken.returned, taken.using) == ("r", {})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 == 1 && 2 == 3 || 4 == 4", True),
        ("1 == 1 && (2 == 3 || 4 == 5)", False),
        ("!(3 < 2) && 7 % 4 == 3", True),
        ("2 * 3 >= 6 && 5 > 5", False),
        ("std::is_same_v<M<false>, M>", False),
        ("std::is_same_v<A, A> && 1 != 2", True),
        ("true/*1 == 2*/", True),
    ],
)
def test_conditions(text: str, value: bool) -> None:
    assert value_of(text.split("/*")[0], names()) is value


@pytest.mark.parametrize("text", ["a.unknown == 1", "f(1)", "1 + 1 == 2", "(1 == 1", "1 == 1)"])
def test_what_it_does_not_know_is_an_error(text: str) -> None:
    with pytest.raises((KeyError, ValueError)):
        value_of(text, names())


def test_a_text_that_ends_early_is_an_error() -> None:
    with pytest.raises((ValueError, IndexError)):
        read_function(TEXT[: TEXT.index("else if")], "fmha_x")
    with pytest.raises(ValueError, match="no function"):
        read_function(TEXT, "fmha_y")


def test_template_arguments() -> None:
    assert list(split("a, b<c, d>, (e, f), g::h")) == ["a", "b<c,d>", "(e,f)", "g::h"]

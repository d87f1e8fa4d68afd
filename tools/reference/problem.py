"""``problem.md``: every flag of a problem. The JSON names are found by resolving an example of each flag."""

from __future__ import annotations

from fmha_cli.cli.command import Opt
from fmha_cli.cli.options import CHOOSING, FILES, MODELS, PROBLEM
from fmha_cli.domain.fields import BY_KEY
from fmha_cli.domain.problem import Json, Problem

from .commands import default_of, kind_of, meaning_of, options_table, spelling
from .markdown import code, page, section, table

_TABLES = ("--rotary-cos", "--rotary-sin")


def pages() -> dict[str, str]:
    """The page of problem flags."""
    about = (
        "These flags state a problem for `run`, `validate`, `bench`, `explain`, `plan`, `build`, `inspect`, `tune`, `sweep` "
        "and `parity`. The column JSON has the members that the flag sets in the `problem` of a record; a member with its "
        "default is left out unless the [schema](schemas.md#common) requires it."
    )
    panels = dict.fromkeys(option.panel for option in PROBLEM)
    shape = {"Problem": "Shape"}
    parts = [section(shape.get(panel, panel), _flags([o for o in PROBLEM if o.panel == panel])) for panel in panels]
    return {"problem.md": page("Problem flags", about, *parts, _more())}


def _more() -> str:
    return section(
        "Models, files and devices",
        "Commands that take a problem also take a model in its place, files of tensors, and a choice of kernel.",
        options_table((*MODELS, *CHOOSING, *FILES)),
    )


def _flags(options: list[Opt]) -> str:
    rows = (
        (
            spelling(option),
            kind_of(option) + (", sweeps" if option.sweeps or option.name == "mask" else ""),
            option.unit,
            default_of(option.help),
            meaning_of(option.help),
            code(BY_KEY[option.key].example),
            ", ".join(code(member) for member in json_members(option.name)),
        )
        for option in options
    )
    return table(("flag", "type", "unit", "default", "meaning", "example", "JSON"), rows)


def json_members(flag: str) -> tuple[str, ...]:
    """The members of a problem's JSON form that a flag of its example decides, as ``name: value``."""
    example = BY_KEY[flag.replace("-", "_")].example.split()
    at = example.index(f"--{flag}")
    size = 1 if at + 1 == len(example) or example[at + 1].startswith("--") else 2
    ours, base = _json(example), _json([*example[:at], *example[at + size :]])
    return tuple(f"{key}: {_shown(value)}" for key, value in ours.items() if base.get(key) != value)


def _json(line: list[str]) -> dict[str, Json]:
    """The JSON form of a problem; of the problem without rotary tables if only one of the two is given."""
    pair = [word for word in line if word in _TABLES]
    if len(pair) == 1:
        line = [*line[: line.index(pair[0])], *line[line.index(pair[0]) + 2 :]]
    return Problem.from_cli(line).to_dict()


def _shown(value: Json) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)

"""``problem.md``: every flag of a problem. The JSON names are found by resolving an example of each flag."""

from __future__ import annotations

from collections.abc import Mapping

from fmha_cli.cli.command import Opt
from fmha_cli.cli.options import CHOOSING, FILES, MODELS, PROBLEM
from fmha_cli.domain.flags import PROBLEM_FLAGS
from fmha_cli.domain.problem import Json, Problem

from .commands import default_of, kind_of, meaning_of, options_table, spelling
from .markdown import code, page, section, table

EXAMPLES: Mapping[str, str] = {
    "batch": "--batch 2",
    "heads": "--heads 16",
    "kv-heads": "--kv-heads 2",
    "seqlen": "--seqlen 4k",
    "seqlen-k": "--seqlen-k 512",
    "hdim": "--hdim 64",
    "hdim-v": "--hdim-v 64",
    "mla-rope": "--heads 128 --kv-heads 1 --hdim 576 --mla-rope 64",
    "dtype": "--dtype bf16",
    "mask": "--mask window:128,0",
    "causal": "--causal",
    "window": "--window 128",
    "sink": "--mask window:128,0 --sink 4",
    "sink-logits": "--sink-logits filled",
    "bias": "--bias elementwise:bhss",
    "bias-file": "--bias-file filled",
    "alibi": "--alibi",
    "alibi-slopes": "--alibi-slopes filled:bh",
    "softcap": "--softcap 30",
    "dropout": "--dropout 0.1",
    "seed": "--dropout 0.1 --seed 7",
    "offset": "--dropout 0.1 --offset 7",
    "scale": "--scale 0.5",
    "lse": "--lse",
    "layout": "--layout bshd",
    "seqlens-q": "--seqlens-q 512,128",
    "seqlens-k": "--seqlens-q 512,128 --seqlens-k 1k,256",
    "kv-cache": "--kv-cache paged:128",
    "cache-seqlens": "--kv-cache linear --batch 2 --cache-seqlens 700,900",
    "cache-leftpad": "--kv-cache linear --cache-leftpad 8",
    "block-table": "--kv-cache paged:128 --block-table filled",
    "append": "--kv-cache linear --append 1",
    "k-new": "--kv-cache linear --append 1 --k-new filled",
    "v-new": "--kv-cache linear --append 1 --v-new filled",
    "rotary": "--kv-cache linear --append 1 --rotary 64:half",
    "rotary-base": "--kv-cache linear --append 1 --rotary 64 --rotary-base 500000",
    "rotary-cos": "--kv-cache linear --append 1 --rotary 64 --rotary-cos filled --rotary-sin filled",
    "rotary-sin": "--kv-cache linear --append 1 --rotary 64 --rotary-cos filled --rotary-sin filled",
    "cache-batch-idx": "--kv-cache linear --batch 2 --cache-batch-idx 3,1",
    "splits": "--splits 4",
    "kv-dtype": "--kv-cache linear --kv-dtype int8",
    "fp8-encoding": "--dtype fp8_e4m3 --fp8-encoding fnuz",
    "qscale": "--dtype fp8_e4m3 --qscale tensor",
    "q-descale": "--dtype fp8_e4m3 --qscale tensor --q-descale filled",
    "k-descale": "--dtype fp8_e4m3 --qscale tensor --k-descale filled",
    "v-descale": "--dtype fp8_e4m3 --qscale tensor --v-descale filled",
    "direction": "--direction bwd",
    "deterministic": "--direction bwd --deterministic",
    "dbias": "--direction bwd --bias elementwise --dbias",
}
"""A command line for each flag: the problem that it gives shows the flag's name in JSON."""

_TABLES = ("--rotary-cos", "--rotary-sin")


def pages() -> dict[str, str]:
    """The page of problem flags.

    Raises:
        RuntimeError: a flag without an example.
    """
    if missing := [flag.name for flag in PROBLEM_FLAGS if flag.name not in EXAMPLES]:
        raise RuntimeError(f"tools/reference/problem.py: EXAMPLES lacks {', '.join(missing)}")
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
            code(EXAMPLES[option.name]),
            ", ".join(code(member) for member in json_members(option.name)),
        )
        for option in options
    )
    return table(("flag", "type", "unit", "default", "meaning", "example", "JSON"), rows)


def json_members(flag: str) -> tuple[str, ...]:
    """The members of a problem's JSON form that a flag of its example decides, as ``name: value``."""
    example = EXAMPLES[flag].split()
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

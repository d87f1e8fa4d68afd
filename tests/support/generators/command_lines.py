"""Mutated command lines: a seeded generator."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

NULL = "--backend null --seqlen 16 --heads 1 --hdim 16"

QUICK = (
    f"run {NULL}",
    f"run {NULL} --causal --dtype fp16,bf16 --json",
    f"run {NULL} --mask window:4,0 --softcap 30 --lse --csv",
    f"run {NULL} --kv-cache paged:16 --cache-seqlens 20 --append 2 --jsonl",
    f"run {NULL} --seqlens-q 3,5 --seqlens-k 4,6 --out o.npz".replace("--seqlen 16 ", ""),
    f"run {NULL} --bias elementwise:bhss --alibi --dry-run",
    f"run {NULL} --q q.npy --k k.npz:k --v t.safetensors:v --out o.safetensors",
    f"validate {NULL} --fill normal --repeats 1 --md",
    f"bench {NULL} --budget 0.01 --cache both --peak spec",
    f"build {NULL}",
    "explain --backend null --seqlen 4096 --hdim 128 --causal --dtype bf16 --json",
    "explain K012",
    "explain --backend null -H 32 --kv-heads 8 -s 1 --kv-cache paged:16 --cache-seqlens 4096 --dtype bf16",
    "plan --backend null -s 64 --splits 4 --json",
    "list-kernels --backend null --filter dtype:fp16 --count",
    "list-kernels --backend null --family fwd --csv",
    "inspect --all --backend null --arch null --filter behaviour:honest --dry-run",
    "parity --list --limit 3",
    "devices --backend null --json",
    "plugins --md",
    "archs gfx942 --json",
    "profiles",
    "cache ls --json",
    "cache stats",
    "cache verify",
    "cache why 08ebe605 --arch null",
    "cache export kernels.tar",
    "cache import kernels.tar",
    "cache prune --dry-run",
    "sources",
    "sources path nope",
    "sources fetch --offline",
    "schema report -o schema.json",
)
"""Command lines that take milliseconds, and so do most of their mutations."""

LONGER = (
    "explain --backend ck_tile --arch gfx950 --hdim 72 --causal --dtype bf16",
    "explain --arch gfx942 -b 8 -H 32 --kv-heads 8 --seqlens-q 100,200,300 --mask window:4096,0 --dtype bf16 --softcap 50",
    "explain --backend flash_attn --arch sm_90 -H 32 --kv-heads 8 -s 4096 --mask window:1024,0 --dtype bf16",
    "plan --backend flash_attn --arch sm_90 --heads 32 --kv-heads 8 --seqlen 1 --kv-cache paged:256 --cache-seqlens 8k",
    "plan --backend ck_tile --arch gfx942 --splits 4",
    "list-kernels --arch gfx942 --backend ck_tile --family fwd_pagedkv --csv",
    "list-kernels --arch gfx942 --backend ck_tile --profile pytorch --family fwd --count",
    "inspect 08ebe605 --arch null",
    "run --backend cpu -s 64 -d 64 -H 2 --causal",
    "build --backend cpu --hdim 64 --dry-run",
    "run --arch gfx942 --backend ck_tile -s 64 --dry-run --offline",
)

NASTY = (
    *(
        "",
        "0",
        "-1",
        "1",
        "2",
        "7",
        "1k5",
        "1k",
        "0x10",
        "1e400",
        "nan",
        "inf",
        "-inf",
        "1e-400",
        "+3",
        "1_000",
        "\u00bd",
    ),
    *(
        str(2**31),
        str(2**63),
        str(2**64),
        "9" * 50,
        "-" + "9" * 30,
        "0.5",
        "1.5",
        "\u0663",
        "\u00e9",
        "\udc80",
        "\ud83d",
        "\U0001f600",
    ),
    *(
        "1:4:+1",
        "4:2:+1",
        "1:10:*1",
        "1:9:+0",
        ":",
        "a:b:c",
        ",",
        "1,,2",
        "1,2",
        ",1",
        " ",
        "\t",
        "\n",
        "-",
        "--",
        "none",
        "auto",
    ),
    *(
        "filled",
        "filled:h",
        "x" * 300,
        ".",
        "{i}",
        "'",
        '"',
        "$HOME",
        "*",
        "%s",
        "{}",
        "[",
        "\\",
        "\x1b[31m",
        "\x00"[:0],
        "None",
    ),
    *(
        "causal",
        "window",
        "window:4",
        "window:-1,-1",
        "window:9223372036854775808,0",
        "t:1,2,3",
        "generic:1",
        "paged",
        "paged:0",
    ),
    *(
        "paged:99999999999",
        "linear",
        "elementwise",
        "elementwise:2222",
        "bhsd",
        "bshd:bhsd",
        "sbhd",
        "fp16",
        "bf16:fp16",
        "fp61",
    ),
    *(
        "fwd+bwd",
        "bwd",
        "kv-block",
        "q.npy",
        "k.npz",
        "k.npz:zz",
        "junk.npz",
        "folder",
        "missing/x.json",
        "gfx942",
        "sm_90",
        "null",
    ),
)
"""Values of every kind of option, and values of none."""

PLACES = (
    "missing/x.json",
    "missing/x.npz",
    "folder",
    "q.npy/x.json",
    "q.npy",
    "junk.npz",
    "x" * 300,
    "new.json",
    "new.npz",
    "",
)
FILES = (
    "output",
    "out",
    "save-failures",
    "journal",
    "resume",
    "baseline",
    "q",
    "k",
    "v",
    "do",
    "block-table",
    "bias-file",
)
"""Names of places that cannot be written or read, and the options that take them."""

FORMS = ("json", "jsonl", "csv", "md")

LASTING = ("repeats", "budget", "max-time", "timeout", "rounds", "max-rounds", "check-budget", "watch")
"""Options that ask for time. A large value is then no fault, so they get small ones."""

TOO_SLOW = ("backend", "build-upstream", "device", "ck-home", "fa-home", "ck-as", "upstream-bin", "watch")
"""Options whose values may build or run for minutes; they are not added to other lines."""


def mutated(
    count: int, seed: int, bases: Sequence[str], known: Mapping[str, Sequence[str]]
) -> Iterator[tuple[str, ...]]:
    """``count`` command lines, each with one to four changes.

    Args:
        known: every command and the names of its options.
    """
    draw = random.Random(seed)
    names = sorted({name for held in known.values() for name in held if name not in TOO_SLOW})
    made = 0
    while made < count:
        words = draw.choice(bases).split()
        for _ in range(draw.choice((1, 1, 1, 2, 2, 3))):
            words = _changed(words, draw, sorted(known.get(words[0] if words else "", ())) or names, names)
        if not _lasts(words):
            made += 1
            yield tuple(words)


def _changed(words: list[str], draw: random.Random, own: Sequence[str], names: Sequence[str]) -> list[str]:
    """The words with one change."""
    out = list(words) or ["run"]
    at = draw.randrange(len(out))
    name = draw.choice([name for name in own if name not in TOO_SLOW] if draw.random() < 0.8 else names)
    change = draw.choice(
        ("value",) * 3 + ("drop", "double", "swap", "spell", "join", "word") + ("insert",) * 3 + ("file", "form")
    )
    if change == "value":
        values = [i for i in range(1, len(out)) if not out[i].startswith("-") and out[i - 1] != "--backend"]
        if values:
            out[draw.choice(values)] = draw.choice(NASTY)
    elif change == "drop" and out[at] != "null" and out[at] != "--backend":
        del out[at]
    elif change == "double":
        out.insert(at, out[at])
    elif change == "swap" and len(out) > 2:
        out[at], out[at - 1] = out[at - 1], out[at]
    elif change == "insert":
        value = draw.choice(("1", "2", "0", "-1", "x", "")) if name in LASTING else draw.choice(NASTY)
        out[at + 1 : at + 1] = draw.choice(
            ([f"--{name}"], [f"--{name}", value], [f"--{name}", value], [f"--{name}={value}"])
        )
    elif change == "file":
        out += [f"--{draw.choice([name for name in FILES if name in own] or FILES)}", draw.choice(PLACES)]
    elif change == "form":
        out += [f"--{draw.choice(FORMS)}"]
    elif change == "spell" and len(out[at]) > 2:
        letter = draw.randrange(len(out[at]))
        out[at] = draw.choice(
            (out[at][:letter], out[at][:letter] + out[at][letter + 1 :], out[at].upper(), out[at] + out[at][-1])
        )
    elif change == "join" and at + 1 < len(out):
        out[at : at + 2] = [f"{out[at]}={out[at + 1]}"]
    elif change == "word":
        out.insert(at + 1, draw.choice(NASTY))
    return out


def _lasts(words: Sequence[str]) -> bool:
    """Whether a line asks for a long time on purpose, or needs more than the null backend."""
    for word, value in pairwise([*words, ""]):
        name, _, joined = word.removeprefix("--").partition("=")
        if word.startswith("--") and name in LASTING and len(joined or value) > 4:
            return True
    return words[:1] in (["run"], ["validate"], ["bench"], ["build"]) and "--backend" not in words

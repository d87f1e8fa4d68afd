"""The build key: what differs, what hashes the same."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fmha_cli import __version__
from fmha_cli.build.key import BuildKey, digest_of_parts, key_for
from fmha_cli.build.toolchain import Toolchain, ToolchainKind

KEY = BuildKey(
    kernel_name="cpu:fwd:sm_90a:dtype=fp32:tile=8",
    kernel={"family": "fwd", "signature": {"dtype": "fp32", "window": True}, "algorithm": {"tile": [8, 16]}},
    source="int f();\n",
    flags=("-O3", "-ffast-math"),
    toolchain_path="/usr/bin/g++",
    toolchain_version="g++ 12.2.0",
    headers_digest="ab12",
    arch="sm_90a",
    fmha_version="1.0",
)
DIGEST = "c7ee50c3c4875f1a81690a2a3c5de8750630aa62497878e56b5586a775a7383d"

DIFFERS: list[dict[str, Any]] = [
    {"kernel_name": "cpu:fwd:sm_90a:dtype=fp32:tile=16"},
    {"kernel": {**KEY.kernel, "family": "fwd_splitkv"}},
    {"kernel": {**KEY.kernel, "signature": {"dtype": "fp32", "window": False}}},
    {"kernel": {**KEY.kernel, "signature": {"dtype": "fp32", "window": 1}}},
    {"kernel": {**KEY.kernel, "signature": {"dtype": "fp32"}}},
    {"kernel": {**KEY.kernel, "algorithm": {"tile": [16, 8]}}},
    {"kernel": {**KEY.kernel, "algorithm": {"tile": ["8", "16"]}}},
    {"kernel": {**KEY.kernel, "note": None}},
    {"source": "int f();"},
    {"source": "int f(); \n"},
    {"source": "int \u00e9();\n"},
    {"flags": ("-ffast-math", "-O3")},
    {"flags": ("-O3",)},
    {"flags": ("-O3 -ffast-math",)},
    {"flags": ("-O3", "-ffast-math", "")},
    {"toolchain_path": "/usr/local/bin/g++"},
    {"toolchain_version": "g++ 12.3.0"},
    {"headers_digest": "ab13"},
    {"arch": "sm_90"},
    {"arch": "SM_90A"},
    {"fmha_version": "1.0.1"},
    {"schema_version": 2},
]

SAME: list[dict[str, Any]] = [
    {},
    {"kernel": dict(reversed(list(KEY.kernel.items())))},
    {"kernel": {**KEY.kernel, "signature": {"window": True, "dtype": "fp32"}}},
    {"flags": ["-O3", "-ffast-math"]},
]


@pytest.mark.parametrize("change", DIFFERS, ids=str)
def test_every_part_changes_the_digest(change: dict[str, Any]) -> None:
    assert dataclasses.replace(KEY, **change).digest != KEY.digest


def test_changes_differ_from_each_other() -> None:
    digests = [dataclasses.replace(KEY, **change).digest for change in DIFFERS]
    assert len(set(digests)) == len(digests)


def test_every_field_is_in_the_table() -> None:
    assert {name for change in DIFFERS for name in change} == {f.name for f in dataclasses.fields(BuildKey)}


@pytest.mark.parametrize("change", SAME, ids=str)
def test_what_hashes_the_same(change: dict[str, Any]) -> None:
    assert dataclasses.replace(KEY, **change).digest == KEY.digest


def test_digest_is_pinned() -> None:
    """A changed digest throws every user's cache away; it must be meant (raise SCHEMA_VERSION then)."""
    assert KEY.digest == DIGEST


def test_parts_are_json_and_hash_to_the_digest() -> None:
    assert digest_of_parts(json.loads(json.dumps(KEY.parts))) == KEY.digest


def test_a_later_change_of_the_callers_dict_does_not_reach_the_key() -> None:
    kernel: dict[str, Any] = {"algorithm": {"tile": [8]}}
    key = dataclasses.replace(KEY, kernel=kernel)
    kernel["algorithm"]["tile"].append(9)
    assert key.digest == dataclasses.replace(KEY, kernel={"algorithm": {"tile": [8]}}).digest


@pytest.mark.parametrize("kernel", [{1: "a"}, {"a": (1, 2)}, {"a": {1, 2}}, {"a": float("nan")}, {"a": b"x"}], ids=str)
def test_what_json_would_bend_is_refused(kernel: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        dataclasses.replace(KEY, kernel=kernel)


def test_digest_is_the_same_in_other_processes_and_hash_seeds(child: Callable[..., Any]) -> None:
    code = (
        "import sys, json\n"
        "from fmha_cli.build.key import BuildKey\n"
        "fields = json.loads(sys.argv[1])\n"
        "fields['kernel'] = {name: fields['kernel'][name] for name in set(fields['kernel'])}\n"
        "print(BuildKey(**fields).digest)\n"
    )
    fields = json.dumps(dataclasses.asdict(KEY))
    running = [child(code, fields, PYTHONHASHSEED=seed) for seed in ("0", "1", "4242")]
    assert [process.communicate()[0].strip() for process in running] == [KEY.digest] * 3


class _Kernel:
    """What ``key_for`` needs of a KernelSpec."""

    name = "cpu:fwd:x86_64_v4::"
    arch = "x86_64_v4"

    def to_dict(self) -> dict[str, Any]:
        return {"family": "fwd"}


def test_key_for_takes_everything_from_kernel_and_toolchain() -> None:
    toolchain = Toolchain(Path("/usr/bin/ccache"), ToolchainKind.GCC, "g++ 12", ("/usr/bin/ccache", "g++"), "h1")
    kernel: Any = _Kernel()
    key = key_for(kernel, "text", ["-O3"], toolchain)
    assert (key.kernel_name, key.arch, key.kernel) == (kernel.name, kernel.arch, kernel.to_dict())
    assert (key.toolchain_path, key.toolchain_version, key.headers_digest) == ("/usr/bin/ccache g++", "g++ 12", "h1")
    assert (key.source, key.flags, key.fmha_version) == ("text", ("-O3",), __version__)


def test_header_trees_count_and_their_order_too() -> None:
    toolchain = Toolchain(Path("/usr/bin/g++"), ToolchainKind.GCC, "g++ 12", ("/usr/bin/g++",), "h1")
    kernel: Any = _Kernel()
    variants = [(), ("t1",), ("t2",), ("t1", "t2"), ("t2", "t1")]
    digests = {key_for(kernel, "", [], toolchain, header_trees=trees).digest for trees in variants}
    assert len(digests) == len(variants)

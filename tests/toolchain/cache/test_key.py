"""The build key: the changes that affect the hash, and the others."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import pytest

from fmha_cli import __version__
from fmha_cli.domain.encode import digest_of
from fmha_cli.toolchain.cache.key import BuildKey, BuildKind, BuildSpec, key_for
from fmha_cli.toolchain.cpp.toolchain import Toolchain, ToolchainKind

SPEC = BuildSpec(
    kind=BuildKind.KERNEL,
    name="cpu:fwd:sm_90a:dtype=fp32:tile=8",
    arch="sm_90a",
    identity={"family": "fwd", "signature": {"dtype": "fp32", "window": True}, "algorithm": {"tile": [8, 16]}},
    source="int f();\n",
)
KEY = BuildKey(
    spec=SPEC,
    flags=("-O3", "-ffast-math"),
    toolchain_path="/usr/bin/g++",
    toolchain_version="g++ 12.2.0",
    headers_digest="ab12",
    fmha_version="1.0",
)
OF_SPEC = {f.name for f in dataclasses.fields(BuildSpec)}


def changed(**change: Any) -> BuildKey:
    """KEY with some parts replaced, whichever value they belong to."""
    own = {name: value for name, value in change.items() if name not in OF_SPEC}
    spec = {name: value for name, value in change.items() if name in OF_SPEC}
    return dataclasses.replace(KEY, spec=dataclasses.replace(SPEC, **spec), **own)


DIGEST = "b4dc77badec15c1dbb0d11cc7527226894cb057590b0138497742f893b2af779"

DIFFERS: list[dict[str, Any]] = [
    {"kind": BuildKind.EMULATOR},
    {"name": "cpu:fwd:sm_90a:dtype=fp32:tile=16"},
    {"identity": {**SPEC.identity, "family": "fwd_splitkv"}},
    {"identity": {**SPEC.identity, "signature": {"dtype": "fp32", "window": False}}},
    {"identity": {**SPEC.identity, "signature": {"dtype": "fp32", "window": 1}}},
    {"identity": {**SPEC.identity, "signature": {"dtype": "fp32"}}},
    {"identity": {**SPEC.identity, "algorithm": {"tile": [16, 8]}}},
    {"identity": {**SPEC.identity, "algorithm": {"tile": ["8", "16"]}}},
    {"identity": {**SPEC.identity, "note": None}},
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
    {"schema_version": 1},
]

SAME: list[dict[str, Any]] = [
    {},
    {"identity": dict(reversed(list(SPEC.identity.items())))},
    {"identity": {**SPEC.identity, "signature": {"window": True, "dtype": "fp32"}}},
    {"flags": ["-O3", "-ffast-math"]},
]


@pytest.mark.promise("The key of a build has all that decides it, and nothing of the machine's folders.")
@pytest.mark.parametrize("change", DIFFERS, ids=str)
def test_every_part_changes_the_digest(change: dict[str, Any]) -> None:
    assert changed(**change).digest != KEY.digest


def test_changes_differ_from_each_other() -> None:
    digests = [changed(**change).digest for change in DIFFERS]
    assert len(set(digests)) == len(digests)


def test_every_field_is_in_the_table() -> None:
    assert {name for change in DIFFERS for name in change} == OF_SPEC | {
        f.name for f in dataclasses.fields(BuildKey)
    } - {"spec"}


@pytest.mark.parametrize("change", SAME, ids=str)
def test_what_hashes_the_same(change: dict[str, Any]) -> None:
    assert changed(**change).digest == KEY.digest


def test_digest_is_pinned() -> None:
    """A changed digest invalidates every user's cache, so a change must be intended (raise SCHEMA_VERSION then)."""
    assert KEY.digest == DIGEST


def test_parts_are_json_and_hash_to_the_digest() -> None:
    assert digest_of(json.loads(json.dumps(KEY.parts))) == KEY.digest


def test_a_later_change_of_the_callers_dict_does_not_reach_the_key() -> None:
    identity: dict[str, Any] = {"algorithm": {"tile": [8]}}
    key = changed(identity=identity)
    identity["algorithm"]["tile"].append(9)
    assert key.digest == changed(identity={"algorithm": {"tile": [8]}}).digest


@pytest.mark.parametrize(
    "identity", [{1: "a"}, {"a": (1, 2)}, {"a": {1, 2}}, {"a": float("nan")}, {"a": b"x"}], ids=str
)
def test_what_json_would_bend_is_refused(identity: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        changed(identity=identity)


@pytest.mark.promise("The key of a build has all that decides it, and nothing of the machine's folders.")
def test_digest_is_the_same_in_other_processes_and_hash_seeds(child: Callable[..., Any]) -> None:
    code = (
        "import sys, json\n"
        "from fmha_cli.toolchain.cache.key import BuildKey, BuildKind, BuildSpec\n"
        "fields = json.loads(sys.argv[1])\n"
        "spec = fields.pop('spec')\n"
        "spec['kind'] = BuildKind(spec['kind'])\n"
        "spec['identity'] = {name: spec['identity'][name] for name in set(spec['identity'])}\n"
        "print(BuildKey(BuildSpec(**spec), **fields).digest)\n"
    )
    fields = json.dumps(dataclasses.asdict(KEY))
    running = [child(code, fields, PYTHONHASHSEED=seed) for seed in ("0", "1", "4242")]
    assert [process.communicate()[0].strip() for process in running] == [KEY.digest] * 3


def test_key_for_takes_everything_from_the_toolchain() -> None:
    toolchain = Toolchain(
        argv0=("/usr/bin/ccache", "g++"), version="g++ 12", headers_digest="h1", kind=ToolchainKind.GCC
    )
    key = key_for(SPEC, ["-O3"], toolchain)
    assert (key.toolchain_path, key.toolchain_version, key.headers_digest) == ("/usr/bin/ccache g++", "g++ 12", "h1")
    assert (key.spec, key.flags, key.fmha_version) == (SPEC, ("-O3",), __version__)


def test_header_trees_count_and_their_order_too() -> None:
    toolchain = Toolchain(argv0=("/usr/bin/g++",), version="g++ 12", headers_digest="h1", kind=ToolchainKind.GCC)
    variants = [(), ("t1",), ("t2",), ("t1", "t2"), ("t2", "t1")]
    digests = {key_for(SPEC, [], toolchain, header_trees=trees).digest for trees in variants}
    assert len(digests) == len(variants)

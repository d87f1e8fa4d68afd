"""``ArchSpec``: the facts of one architecture, read from ``arch_specs/`` with their sources.

A file of groups (``fmha.arch-facts/1``) next to the architectures' files states once what several architectures share.
The file of an architecture names its groups under ``shared`` and adds its own facts. A fact may appear in only one of
them.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fmha_cli.domain.errors import InternalError, UsageError
from fmha_cli.domain.suggest import NameKind, suggest

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from fmha_cli.domain.spoken import Meaning

SCHEMA = "fmha.arch/1"
GROUPS_SCHEMA = "fmha.arch-facts/1"


@dataclass(frozen=True)
class ArchSpec:
    """Facts of one architecture.

    Attributes:
        name: with its suffix (``sm_90a``, ``gfx942``, ``x86_64_v4_bf16``).
        vendor: ``cpu``, ``amd`` or ``nvidia``.
        title: one line for people.
        facts: name -> {"value": ..., "source": ...}. Where sources were weighed, a fact also has "confidence"
            (``checked``, ``recalled`` or ``conflict``) and "conflict" (the statement of another source).
        backends: backend name -> that backend's own tables (tiles, pipelines ...), each row with a source.
    """

    name: str
    vendor: str
    title: str
    facts: Mapping[str, Mapping[str, Any]]
    backends: Mapping[str, Any]

    def fact(self, key: str) -> Any:
        """The value of a fact.

        Raises:
            InternalError: this architecture does not state the fact.
        """
        if key not in self.facts:
            raise InternalError(f"arch {self.name} states no fact {key!r}", where=f"arch_specs/{self.name}.json")
        return self.facts[key]["value"]


def arch_root() -> Traversable:
    """The folder of the facts: inside the installed package, next to it in a checkout, or in an archive on the path.

    Raises:
        InternalError: it is in none of these places.
    """
    if (folder := _folder()) is not None:
        return folder
    from importlib import resources  # slow to import

    try:
        return resources.files("fmha_cli.arch_specs")
    except ModuleNotFoundError as fault:
        raise InternalError("arch_specs/ is missing from the installation") from fault


@cache
def _folder() -> Path | None:
    here = Path(__file__).resolve()
    places = (here.parents[1] / "arch_specs", here.parents[2] / "arch_specs")
    return next((place for place in places if place.is_dir()), None)


@cache
def arch_document(file: str, schema: str) -> Mapping[str, Any]:
    """The content of a file of tables in ``arch_specs/``.

    Raises:
        InternalError: the file is not of that schema.
    """
    where = f"arch_specs/{file}"
    try:
        data = json.loads(arch_root().joinpath(file).read_text("utf-8"))
        if data["schema"] != schema:
            raise KeyError("schema")
    except (ValueError, KeyError, TypeError) as fault:
        raise InternalError(f"{where} is not {schema}: {fault}", where=where) from fault
    return dict(data)


def arch_names() -> tuple[str, ...]:
    """The names of the architectures that have a file of facts, sorted."""
    root = arch_root()
    return _names_in(root) if isinstance(root, Path) else _names_of(entry.name for entry in root.iterdir())


@cache
def _names_in(folder: Path) -> tuple[str, ...]:
    return _names_of(os.listdir(folder))


def _names_of(files: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(f[:-5] for f in files if f.endswith(".json") and not f.startswith("_")))


def apart(name: str, other: str) -> tuple[bool, int]:
    """How far apart two architectures are by their names, to be sorted by: another family (the letters in front) is farthest, then
    the numbers count, in which a letter at the end of a name with an underscore has no weight. Processors have no numbers."""
    (family, number), (own, own_number) = _numbered(name), _numbered(other)
    return family != own, abs(number - own_number) if family == own else 0


def _numbered(name: str) -> tuple[str, int]:
    if glued := re.fullmatch(r"([a-z]+)(\d+)([0-9a-f]{2})", name):  # major, then minor and stepping, a hex digit each
        return glued[1], int(glued[2]) * 256 + int(glued[3], 16)
    if joined := re.fullmatch(r"([a-z]+)_(\d+)[a-z]?", name):
        return joined[1], int(joined[2])
    return name.partition("_")[0], 0


def arch_of(name: str) -> str:
    """The architecture of a product that only one has: sm_90a for ``h100``. Any other name is returned as it is."""
    found = None if name in arch_names() else _meaning(name)
    return found.names[0] if found is not None and found.whole and len(found.names) == 1 else name


def _meaning(name: str) -> Meaning | None:
    from fmha_cli.domain.spoken import meaning  # it reads facts, as this module does

    return meaning(name, NameKind.ARCH)


def load_arch(name: str) -> ArchSpec:
    """The facts of one architecture.

    Raises:
        UsageError: no such architecture, with near names; or one that exists, for which there are no kernels here.
        InternalError: the file does not follow ``fmha.arch/1``.
    """
    known = arch_names()
    if name not in known:
        found = _meaning(name.partition(":")[0])
        if found is not None and not found.names:
            what, help = f"--arch {name}: not one of fmha's architectures", "`fmha archs` lists those with kernels"
            raise UsageError(what, code="E005", where="--arch", why=found.note, help=help)
        help = suggest(name, known, NameKind.ARCH, "`fmha archs` lists them")
        raise UsageError(f"--arch {name}: no such architecture", code="E005", where="--arch", help=help)
    root = arch_root()
    return _facts_in(root, name) if isinstance(root, Path) else _read(root, name)


@cache
def _facts_in(folder: Path, name: str) -> ArchSpec:
    """Listing a backend's kernels reads every architecture, again and again."""
    return _read(folder, name)


def _read(root: Traversable, name: str) -> ArchSpec:
    return arch_from_json(root.joinpath(f"{name}.json").read_text("utf-8"), f"arch_specs/{name}.json")


def arch_from_json(text: str, where: str) -> ArchSpec:
    """The facts in the text of an ``fmha.arch/1`` file; every fact must have a source.

    Raises:
        InternalError: malformed text, a missing member, or a fact without a source.
    """
    try:
        data = json.loads(text)
        if data["schema"] != SCHEMA:
            raise KeyError("schema")
        members = [*_groups(**data.get("shared", {})), data]
        facts = _merged(member["facts"] for member in members)
        backends = _merged(member.get("backends", {}) for member in members)
        spec = ArchSpec(data["name"], data["vendor"], data["title"], facts, backends)
        bare = [k for k, v in spec.facts.items() if not (isinstance(v, dict) and v.get("source") and "value" in v)]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as fault:
        raise InternalError(f"{where} is not {SCHEMA}: {fault}", where=where) from fault
    if bare:
        raise InternalError(f"{where}: facts without value and source: {', '.join(bare)}", where=where)
    return spec


def _groups(file: str = "", groups: Sequence[str] = ()) -> list[Mapping[str, Any]]:
    return [arch_document(file, GROUPS_SCHEMA)["groups"][name] for name in groups]


def _merged(members: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in (item for member in members for item in member.items()):
        if name in found:
            raise KeyError(f"{name} stands twice")
        found[name] = value
    return found

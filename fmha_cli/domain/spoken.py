"""Names that people use for things with another name here: a table in ``arch_specs/``, and the products in the
architectures' facts.

Only refused names are looked up, so nothing here costs a command that works.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fmha_cli.domain.arch import arch_document, arch_names, load_arch
from fmha_cli.domain.suggest import NameKind

FILE, SCHEMA = "_names.json", "fmha.names/1"
ELSEWHERE, ELSEWHERE_SCHEMA = "_elsewhere.json", "fmha.elsewhere/1"
"""Libraries that are not backends of this installation."""
_PREFIX = 4
"""A product may be named by its first letters and digits, at least so many (``mi300``)."""


@dataclass(frozen=True)
class Meaning:
    """The meaning of a name.

    Attributes:
        names: the names that it has here.
        label: the word that found them, for people (``MI300X``); empty if that is the name itself.
        note: a sentence to print with them, or instead of them.
        absent: all there is to say if none of the names exists.
        whole: whether the name has a product's own words (``h100``), not only its first letters (``mi30``).
    """

    names: tuple[str, ...]
    label: str = ""
    note: str = ""
    absent: str = ""
    whole: bool = False


def letters(name: str) -> str:
    """The letters and digits of a name, small: names are compared by these."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def meaning(name: str, kind: NameKind) -> Meaning | None:
    """The meaning of a name that people use; None if neither the table nor the facts know it. Modules in front of a
    name (``torch.float16``) do not count.
    """
    if kind is NameKind.ARCH:
        return _product(name)
    own = letters(name.rpartition(".")[2])
    for row in _document()["names"][kind]:
        if own and own in map(letters, row["said"]):
            return Meaning(tuple(row["means"]), note=row.get("note", ""))
    if kind is not NameKind.BACKEND:
        return None
    return _library(letters(name)) or _library(own)  # the dot of llama.cpp is its own


def _library(own: str) -> Meaning | None:
    """The answer about a library that a user names as a backend."""
    rows = arch_document(ELSEWHERE, ELSEWHERE_SCHEMA)["libraries"]
    row = next((row for row in rows if own and own in map(letters, row["said"])), None)
    if row is None:
        return None
    nearest, title = ", ".join(row.get("nearest", ())), row["title"]
    if row["why"] is not None:
        return Meaning((), absent=f"{title} is not served: {row['why']}; nearest: {nearest}")
    if "plugin" not in row:
        return Meaning(tuple(row["nearest"]), label=f"the kernels of {title}")
    name, packages = row["plugin"]["backend"], " ".join(row["plugin"]["packages"])
    how = f"in a checkout of fmha, pip install ./plugins/fmha-{name} {packages}"
    return Meaning((name,), absent=f"the backend {name} is a plugin for {title}: {how}")


def products(facts: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    """The products that the facts of an architecture name."""
    value = {key: fact["value"] for key, fact in facts.items()}
    product = (value["product"],) if "product" in value else ()
    return (*value.get("products", ()), *product, *value.get("other_products", ()), *value.get("device_names", ()))


def _product(name: str) -> Meaning | None:
    """The architectures of a product: by its whole name, by some of its words, or by its first letters. An architecture that exists and
    has no kernels here is known too, so neither its name nor its product is mistaken for another: it has no names and a
    note."""
    wanted = _bare(name)
    rows = _document()["names"][NameKind.ARCH]
    known = [(product, arch) for arch in arch_names() for product in products(load_arch(arch).facts)]
    known += [(said, arch) for row in rows for said in row["said"] for arch in row["means"]]
    for fits in (_is, _has_words, _begins) if wanted else ():
        found = [(product, arch) for product, arch in known if fits(wanted, _bare(product))]
        if found:
            labels = dict.fromkeys(product for product, _ in found)
            short = [label for label in labels if not any(other in label for other in labels if other != label)]
            archs = tuple(dict.fromkeys(arch for _, arch in found))
            fuller = [arch for arch in archs if whole_of(arch, archs) is None]
            fewer = ", ".join(arch for arch in archs if arch not in fuller)
            note = f"{fewer} lacks the kernels that need these chips' own instructions." if fewer else ""
            return Meaning(tuple(fuller), label=", ".join(short[:3]), note=note, whole=fits is not _begins)
        for row in _document()["without_kernels"]:
            if any(fits(wanted, _bare(said)) for said in (*(row["archs"] if fits is _is else ()), *row["products"])):
                return Meaning((), note=_other(name, row))
    return None


def _other(name: str, row: Mapping[str, Any]) -> str:
    """A sentence about an architecture without kernels: ``gfx906 is AMD Vega 20 (Radeon VII, Pro VII, MI50, MI60); fmha has
    no ...``.
    """
    own = [arch for arch in row["archs"] if letters(arch) == letters(name)] or row["archs"]
    some = ", ".join([product for product in row["products"] if product not in row["title"]][:4])
    about = f"{row['title']} ({some})" if some else row["title"]
    return f"{', '.join(own)} {'is' if len(own) == 1 else 'are'} {about}; fmha has no kernels for it"


def whole_of(arch: str, archs: Iterable[str]) -> str | None:
    """The architecture with the instructions that only one chip has, next to the one that later chips also accept:
    sm_90a for sm_90. Kernels for it include those that need such instructions. None if there is none among ``archs``.

    Source: NVIDIA, CUDA C++ Programming Guide, architecture-specific features: targets with the suffix ``a``.
    """
    whole = f"{arch}a"
    return whole if whole in archs else None


def _is(wanted: Sequence[str], product: Sequence[str]) -> bool:
    return "".join(wanted) == "".join(product)


def _has_words(wanted: Sequence[str], product: Sequence[str]) -> bool:
    first, *others = wanted
    return product[:1] == (first,) and all(any(word.startswith(w) for word in product[1:]) for w in others)


def _begins(wanted: Sequence[str], product: Sequence[str]) -> bool:
    text = "".join(wanted)
    return len(text) >= _PREFIX and "".join(product).startswith(text)


def _bare(name: str) -> tuple[str, ...]:
    """The words of a product without the brands in front of them; a brand may be written together with the next word."""
    brands = _document()["brands"]["value"]
    words = list(_words(name))
    while words:
        glued = next((b for b in brands if words[0] == b or re.fullmatch(rf"{b}\d.*", words[0])), None)
        if glued is None:
            break
        words[0] = words[0].removeprefix(glued)
        words = words if words[0] else words[1:]
    return tuple(words)


def _words(name: str) -> Iterator[str]:
    return (word.lower() for word in re.findall(r"[A-Za-z0-9]+", name))


def _document() -> Any:
    return arch_document(FILE, SCHEMA)

"""``backends.md``: which backend has what. The answers come from the backends, which are asked about a problem for each feature."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from fmha_cli.api import Problem, Supported, Unsupported
from fmha_cli.cli.options import EXCLUDES
from fmha_cli.discovery.preference import load_preference
from fmha_cli.discovery.profiles import profiles
from fmha_cli.domain.arch import arch_document, load_arch
from fmha_cli.domain.spoken import ELSEWHERE, ELSEWHERE_SCHEMA
from fmha_cli.domain.spoken import FILE as NAMES
from fmha_cli.domain.spoken import SCHEMA as NAMES_SCHEMA
from fmha_cli.plugin import DeviceFacts

from .installation import registry
from .kernels import backends, counted, releases, suites
from .markdown import code, page, plain, section, table
from .probes import ASKED, FEATURES, Column

_PLATFORMS = {"amd": "AMD GPUs", "nvidia": "NVIDIA GPUs", "cpu": "processors"}


@dataclass(frozen=True)
class Answer:
    """What a backend says to a feature.

    Attributes:
        refusal: the nearest miss; None if a kernel serves the problem.
    """

    refusal: Unsupported | None

    @property
    def cell(self) -> str:
        return "yes" if self.refusal is None else rule_link(self.refusal.reasons[0].id)


def pages() -> dict[str, str]:
    """The page of backends."""
    about = (
        "A backend is a set of kernels. `--backend NAME` asks one; without it, `auto` takes the first that serves the problem. "
        "`fmha explain` answers for your own problem, device and architecture what the tables here say of examples."
    )
    return {
        "backends.md": page(
            "Backends",
            about,
            section("All backends", _backends()),
            section("Kernels", counted()),
            section("Releases of libraries", releases()),
            section("Features", _about_features(), *(_features(group) for group in FEATURES)),
            section("Not here", _not_here()),
            section("Libraries that are no backend", _elsewhere()),
            section("Architectures without kernels", _architectures()),
            section("Order", *_order()),
            section("Profiles", _profiles()),
            section("Known faults of kernels", _known_bad()),
            section("Suites of parity", suites()),
        )
    }


def _backends() -> str:
    rows = (
        (
            code(name),
            "built in" if registry().is_builtin(name) else code(f"plugins/fmha-{name}"),
            ", ".join(f"[`{arch}`](architectures.md#{arch})" for arch in backend.archs()),
            "yes" if backend.automatic else "",
            code(backend.dropout_stream),
        )
        for name, backend in backends().items()
    )
    return table(("backend", "from", "architectures", "taken by auto", "dropout stream"), rows)


def _about_features() -> str:
    columns = "; ".join(f"{column.title} is asked beside {code(column.base)}" for column in ASKED if column.base)
    return (
        "Each row is a problem with these flags, the defaults for everything else, and one architecture for each backend. "
        "`yes` means that a kernel serves it. Otherwise the cell names the first rule that refuses the kernel which comes "
        f"nearest. {columns}."
    )


def _features(group: str) -> str:
    columns = ("feature", "flags", *(column.title for column in ASKED))
    rows = (
        (feature, code(flags), *(answer(column, flags).cell for column in ASKED))
        for feature, flags in FEATURES[group].items()
    )
    return section(group, table(columns, rows), level=3)


@cache
def answer(column: Column, flags: str) -> Answer:
    """What a backend says to a problem on one architecture."""
    problem = Problem.from_cli(f"{_beside(column.base, flags)} {flags}".split())
    decisions = list(registry().backend(column.backend).decide(problem, DeviceFacts.of_arch(column.arch)))
    if any(isinstance(one, Supported) for one in decisions):
        return Answer(None)
    return Answer(min((one for one in decisions if isinstance(one, Unsupported)), key=_distance))


def _distance(miss: Unsupported) -> tuple[tuple[int, int], int]:
    """How near a miss is; of equals, the kernel with the largest head dim comes first."""
    return miss.distance, -miss.kernel.signature.hdim if miss.kernel is not None else 0


def _beside(base: str, flags: str) -> str:
    """The flags of a base that those of a feature leave, as a file's values are left by the command line's."""
    named = [flag.replace("-", "_") for flag in re.findall(r"--([a-z0-9-]+)", flags)]
    dropped = {*named, *(other for flag in named for other in EXCLUDES.get(flag, ()))}
    parts = re.findall(r"--[a-z0-9-]+(?: [^-]\S*)?", base)
    return " ".join(part for part in parts if part.split()[0].removeprefix("--").replace("-", "_") not in dropped)


def _not_here() -> str:
    rows = [
        row
        for group, features in FEATURES.items()
        for feature, flags in features.items()
        for row in _missing(f"{group}: {feature}", flags)
    ]
    return "\n\n".join(
        [
            "These features no backend has on the named hardware. The reason is what each backend says of its nearest kernel.",
            table(("feature", "flags", "hardware", "why"), rows),
        ]
    )


def _missing(feature: str, flags: str) -> Iterator[tuple[str, str, str, str]]:
    for vendor, hardware in _PLATFORMS.items():
        asked = [column for column in ASKED if load_arch(column.arch).vendor == vendor]
        answers = {column: answer(column, flags).refusal for column in asked}
        if all(answers.values()):
            reasons = {
                f"{column.backend}: {plain(miss.reasons[0].text)} ({rule_link(miss.reasons[0].id)})": None
                for column, miss in answers.items()
                if miss is not None
            }
            yield feature, code(flags), hardware, "; ".join(reasons)


def rule_link(id: str) -> str:
    """A link to a rule."""
    return f"[{id}](rules.md#{id.lower()})"


def _elsewhere() -> str:
    rows = (
        (
            plain(row["title"]),
            ", ".join(code(word) for word in row["said"]),
            plain(row["why"]) if row["why"] else _served(row),
            ", ".join(code(name) for name in row.get("nearest", ())),
            plain(row["source"]),
        )
        for row in arch_document(ELSEWHERE, ELSEWHERE_SCHEMA)["libraries"]
    )
    return table(("library", "said as", "why not", "nearest backend", "source"), rows)


def _served(row: dict[str, dict[str, str]]) -> str:
    plugin = row.get("plugin")
    return (
        f"the plugin `plugins/fmha-{plugin['backend']}` serves it" if plugin else "the nearest backend has its kernels"
    )


def _architectures() -> str:
    rows = (
        (
            ", ".join(code(arch) for arch in row["archs"]),
            plain(row["title"]),
            ", ".join(row["products"]),
            plain(row["source"]),
        )
        for row in arch_document(NAMES, NAMES_SCHEMA)["without_kernels"]
    )
    return table(("architecture", "hardware", "products", "source"), rows)


def _order() -> Iterator[str]:
    preference = load_preference()
    yield (
        "On one device, `auto` takes the first of these that serves the problem; plugins come last, and GPUs before the "
        "processor. A backend whose kernels a GPU confirmed on the architecture comes before one that it did not confirm."
    )
    yield table(
        ("place", "backend", "source"),
        ((str(n), code(one.backend), plain(one.source)) for n, one in enumerate(preference.order, 1)),
    )
    rows = [
        (code(one.backend), code(one.arch), plain(one.device), str(one.passed), code(one.record))
        for one in preference.confirmed
    ]
    yield table(("confirmed", "architecture", "device", "rows that passed", "record"), rows) or "None is confirmed yet."


def _profiles() -> str:
    rows = (
        (
            code(p.name),
            ", ".join(code(name) for name in p.aliases),
            p.backend,
            plain(p.title),
            code(p.filter),
            plain(p.source),
        )
        for p in profiles()
    )
    return table(("profile", "also", "backend", "kernels", "filter", "source"), rows)


def _known_bad() -> str:
    reports = arch_document("_known_bad.json", "fmha.known-bad/2")["reports"]
    rows = (
        (
            code(row["backend"]),
            row["effect"],
            ", ".join(code(arch) for arch in row["archs"]) or "all",
            ", ".join(code(family) for family in row["families"]),
            _limits(row),
            plain(row["what"]),
            f"[source]({row['link']})" if row["link"].startswith("https://") else code(row["link"]),
        )
        for row in reports
    )
    return "\n\n".join(
        [
            "Refused kernels are never chosen. Noted ones run, and `fmha explain` says what is known of them.",
            table(("backend", "effect", "architectures", "families", "where", "what", "link"), rows),
        ]
    )


def _limits(row: dict[str, object]) -> str:
    """Which kernels and problems a report is about."""
    parts = [row.get(key, {}) for key in ("fields", "problems")]
    texts = [f"{k} {', '.join(v)}" for part in parts if isinstance(part, dict) for k, v in part.items()]
    revisions = row.get("revisions")
    texts += [f"revision {', '.join(revisions)}"] if isinstance(revisions, list) else []
    texts += [f"scores from {row['scores']:g}"] if isinstance(row.get("scores"), float) else []
    texts += [f"weights below {row['weights']:g}"] if isinstance(row.get("weights"), float) else []
    return "; ".join(texts)

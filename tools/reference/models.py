"""``models.md``: the presets of ``--model`` with every fact and its source, and the model types of configurations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fmha_cli.discovery.model_config import ANY, release, type_rows
from fmha_cli.discovery.model_config import FILE as TYPES
from fmha_cli.discovery.models import FILE, SCHEMA, SIZES
from fmha_cli.domain.arch import arch_document
from fmha_cli.domain.model import FACTS

from .markdown import anchor, code, page, plain, section, table


def pages() -> dict[str, str]:
    """The page of models."""
    presets: Mapping[str, Any] = arch_document(FILE, SCHEMA)["models"]
    about = (
        "`--model NAME` takes the place of the problem flags: each kind of attention layer is one problem. `fmha models NAME` "
        "prints what stands here. `--model FILE` reads the `config.json` of a model instead."
    )
    index = table(
        ("model", "title"), ((f"[`{name}`](#{anchor(name)})", plain(m["title"])) for name, m in presets.items())
    )
    facts = table(("fact", "meaning"), ((code(name), plain(text)) for name, text in FACTS.items()))
    return {
        "models.md": page(
            "Models",
            about,
            section("Presets", index, *(_preset(name, model) for name, model in presets.items())),
            section("Facts of a model", facts),
            section("Sizes that no flag gives", _sizes()),
            section("Model types of configurations", *_types()),
        )
    }


def _preset(name: str, model: Mapping[str, Any]) -> str:
    rows = ((code(key), code(_shown(fact["value"])), plain(fact["source"])) for key, fact in model["facts"].items())
    return section(name, table(("fact", "value", "source"), rows), level=3)


def _sizes() -> str:
    rows = (
        (code(phase.value), ", ".join(code(f"--{flag.replace('_', '-')} {text}") for flag, text in sizes.items()))
        for phase, sizes in SIZES.items()
    )
    return table(("phase", "flags"), rows)


def _types() -> Iterator[str]:
    rows = {name: row for name, row in type_rows().items() if name != ANY}
    refused: dict[str, list[str]] = {}
    for name, row in rows.items():
        if row.why:
            refused.setdefault(row.why, []).append(name)
    read = [name for name, row in rows.items() if not row.why]
    yield (
        f"`--model FILE` looks up the `model_type` of a configuration in `arch_specs/{TYPES}`, which says what the classes of "
        f"transformers {release()} do with it. {len(read)} types are read, and {len(rows) - len(read)} are refused (E061)."
    )
    yield section("Types that are read", ", ".join(code(name) for name in read) + ".", level=3)
    lines = ((plain(why), ", ".join(code(name) for name in names)) for why, names in refused.items())
    yield section("Types that are refused", table(("why", "types"), lines), level=3)


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)

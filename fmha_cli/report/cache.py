"""``fmha.cache/1``: one document for every action of ``fmha cache``; what an action does not say is null."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fmha_cli.build.audit import VerifyReport
from fmha_cli.build.entry import Damage
from fmha_cli.build.exporting import Exported
from fmha_cli.build.importing import Imported
from fmha_cli.build.listing import CacheStats, EntryInfo
from fmha_cli.build.prune import Pruned
from fmha_cli.build.why import Why

CacheResult = CacheStats | VerifyReport | Pruned | Why | Exported | Imported

_MEMBERS: tuple[tuple[type[Any], str], ...] = (
    (CacheStats, "stats"),
    (VerifyReport, "verify"),
    (Pruned, "prune"),
    (Why, "why"),
    (Exported, "export"),
    (Imported, "import"),
)
"""What an action returns, and the member (also the action's name) that shows it."""


def cache_document(root: str, entries: Iterable[EntryInfo], result: CacheResult | None = None) -> dict[str, Any]:
    """The document of ``ls`` (``result`` None), or of the action that gave the result.

    ``entries`` are those listed (``ls``), removed or that would be (``prune``); none for the others.
    """
    action = "ls" if result is None else next(name for kind, name in _MEMBERS if isinstance(result, kind))
    members: dict[str, Any] = {name: None for _, name in _MEMBERS}
    if result is not None:
        members[action] = _result_dict(result)
    rows = [entry_dict(info) for info in entries]
    return {
        **members,
        "action": action,
        "bytes": sum(row["bytes"] for row in rows),
        "count": len(rows),
        "entries": rows,
        "root": root,
        "schema": "fmha.cache/1",
    }


def entry_dict(info: EntryInfo) -> dict[str, Any]:
    """One entry; times are nanoseconds since 1970; what a damaged one does not tell is null."""
    return {
        "arch": info.arch or None,
        "build_ns": info.build_ns or None,
        "bytes": info.size,
        "created_ns": info.created_ns or None,
        "damage": list(info.damage),
        "digest": info.digest,
        "kernel": info.kernel_name or None,
        "path": str(info.path),
        "toolchain": info.toolchain or None,
        "used_ns": info.used_ns,
    }


def _damage_dict(damage: Damage) -> dict[str, Any]:
    return {"digest": damage.digest, "path": str(damage.path), "reasons": list(damage.reasons)}


def _result_dict(result: CacheResult) -> dict[str, Any]:
    match result:
        case CacheStats():
            return {key: value for key, value in vars(result).items() if key != "root"} | {
                "total_bytes": result.total_bytes
            }
        case VerifyReport():
            return {
                "busy": list(result.busy),
                "checked": result.checked,
                "damaged": [_damage_dict(damage) for damage in result.damaged],
                "quarantined": [str(path) for path in result.quarantined],
            }
        case Pruned():
            return {
                "freed_bytes": result.freed_bytes,
                "kept_locked": list(result.kept_locked),
                "kept_recent": list(result.kept_recent),
                "others": [str(path) for path in result.others],
            }
        case Why():
            return {
                "details": list(result.details),
                "differences": [vars(difference) for difference in result.differences],
                "digest": result.digest,
                "nearest": result.nearest,
                "standing": result.standing.value,
            }
        case Exported():
            return {
                "archive": str(result.archive),
                "bytes": result.size,
                "digests": list(result.digests),
                "skipped": [_damage_dict(damage) for damage in result.skipped],
            }
        case Imported():
            return {"added": list(result.added), "present": list(result.present)}

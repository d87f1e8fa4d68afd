"""Words for people that several rooms write."""

from __future__ import annotations

from collections.abc import Sequence

from fmha_cli.domain.plan import Edited


def edited_text(edited: Edited) -> str:
    """``baseline, edited (3 files differ)``."""
    return f"{edited.base}, edited ({edited.files} {'file differs' if edited.files == 1 else 'files differ'})"


def listed(items: Sequence[str], most: int = 3) -> str:
    """The first items, and how many more there are: ``a, b, c and 4 more``."""
    return ", ".join(items[:most]) + (f" and {len(items) - most} more" if len(items) > most else "")

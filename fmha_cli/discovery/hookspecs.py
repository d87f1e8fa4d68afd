"""The hooks that a plugin may implement. Each is called once, to collect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pluggy

from fmha_cli.domain.emulation import Emulator
from fmha_cli.domain.protocols import Backend

PROJECT = "fmha"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def fmha_register_backends() -> Sequence[Backend]:  # type: ignore[empty-body]
    """Backends of this plugin."""


@hookspec
def fmha_register_emulators() -> Sequence[Emulator]:  # type: ignore[empty-body]
    """Families of emulated devices of this plugin."""


@hookspec
def fmha_register_arch_specs() -> Mapping[str, str]:  # type: ignore[empty-body]
    """Architecture name -> JSON text (``fmha.arch/1``) of further architectures."""


@hookspec
def fmha_register_commands() -> Mapping[str, Any]:  # type: ignore[empty-body]
    """Command name -> function; it becomes ``fmha NAME``."""


@hookspec
def fmha_register_dropout_streams() -> Mapping[str, Any]:  # type: ignore[empty-body]
    """Stream name -> function (problem, b, h, i, first, end) -> bool array: which elements of P dropout keeps.

    ``h`` and ``i`` are int64 arrays of shape (rows,): query heads and query rows of sequence ``b``. ``first`` and ``end``
    bound the keys. The result has shape (rows, end - first), True where P is kept, and must not depend on the block in which an
    element is requested. Kept elements are divided by 1 - p. ``Backend.dropout_stream`` names a backend's stream. A name
    that is taken is a fault that ``fmha doctor`` shows.
    """


@hookspec
def fmha_register_fills() -> Mapping[str, Any]:  # type: ignore[empty-body]
    """Fill name -> function (shape, generator) -> float32 array."""

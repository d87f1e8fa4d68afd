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

    ``docs/numerics.md`` has the contract of the function; ``Backend.dropout_stream`` names the stream.
    """


@hookspec
def fmha_register_fills() -> Mapping[str, Any]:  # type: ignore[empty-body]
    """Fill name -> function (shape, generator) -> float32 array."""

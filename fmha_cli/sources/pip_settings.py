"""Where packages come from: pip's own configuration, as pip reports it."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass

_SECTIONS = ("global", "install", "download", ":env:")
"""Weakest first; a variable beats every file, as in pip."""

_ASK_S = 60.0


@dataclass(frozen=True)
class PipSettings:
    """The part of pip's configuration that determines where files come from.

    Attributes:
        indexes: address of the main simple index; empty for the default one. extra: further ones.
        links: folders or pages of ``--find-links``.
        no_index: only ``links`` count.
        cert, client_cert, proxy: as pip's options; None if not set.
        trusted: hosts whose certificate is not checked.
        timeout: seconds. retries: per connection.
    """

    indexes: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    no_index: bool = False
    cert: str | None = None
    client_cert: str | None = None
    proxy: str | None = None
    trusted: tuple[str, ...] = ()
    timeout: float = 15.0
    retries: int = 5


def read_settings(environ: Mapping[str, str] | None = None) -> PipSettings:
    """Ask pip for its configuration; without pip, its variables alone count. Never raises."""
    env = dict(os.environ if environ is None else environ)
    values = _parse(_ask(env))
    if not values:
        prefix = "PIP_"
        values = {
            name[len(prefix) :].lower().replace("_", "-"): text for name, text in env.items() if name.startswith(prefix)
        }
    main = values.get("index-url") or values.get("pypi-url")
    return PipSettings(
        indexes=(main,) if main else (),
        extra=tuple(values.get("extra-index-url", "").split()),
        links=tuple(values.get("find-links", "").split()),
        no_index=values.get("no-index", "").lower() in ("1", "true", "yes", "on"),
        cert=values.get("cert") or None,
        client_cert=values.get("client-cert") or None,
        proxy=values.get("proxy") or None,
        trusted=tuple(values.get("trusted-host", "").split()),
        timeout=_number(values.get("timeout") or values.get("default-timeout"), 15.0),
        retries=round(_number(values.get("retries"), 5)),
    )


def _ask(env: Mapping[str, str]) -> str:
    """The output of ``pip config list``; empty without pip."""
    # -P: a file pip.py in the current folder is not pip.
    commands = [[sys.executable, "-P", "-m", "pip"]]
    program = shutil.which("pip", path=env.get("PATH"))
    commands += [[program]] if program else []
    for command in commands:
        try:
            done = subprocess.run(
                [*command, "--disable-pip-version-check", "config", "list"],
                env=dict(env),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_ASK_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0:
            return done.stdout
    return ""


def _parse(text: str) -> dict[str, str]:
    """Option -> value from lines such as ``global.index-url='...'``, the strongest section winning."""
    found: dict[str, dict[str, str]] = {section: {} for section in _SECTIONS}
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        section, _, option = key.strip().rpartition(".")
        if equals and section in found:
            try:
                found[section][option] = str(ast.literal_eval(value))
            except (ValueError, SyntaxError):
                found[section][option] = value
    return {option: value for section in _SECTIONS for option, value in found[section].items()}


def _number(text: str | None, default: float) -> float:
    try:
        return float(text) if text else default
    except ValueError:
        return default

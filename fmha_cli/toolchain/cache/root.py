"""The choice of the cache directory, and the check that it is safe to load code from it."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path

from fmha_cli.domain.errors import EnvironmentProblem, no_home
from fmha_cli.system.files import foreign_owner, named_path, user_id, writable_by_others
from fmha_cli.toolchain.cache.files import as_environment_problem, make_private_dir
from fmha_cli.toolchain.cache.layout import CacheLayout


def cache_root(explicit: Path | str | None = None, environ: Mapping[str, str] | None = None) -> Path:
    """The cache directory: the argument, else ``FMHA_CACHE_DIR``, else ``$XDG_CACHE_HOME/fmha``, else the platform's.

    The path is absolute and may not exist yet. An empty variable counts as unset, and so does a relative
    ``XDG_CACHE_HOME``, as its specification demands. Where the user named no cache and the default one cannot be written (a
    read-only home), it is ``temporary_root``.

    Raises:
        EnvironmentProblem: X042, none is named, and the user has no home.
    """
    env = os.environ if environ is None else environ
    if explicit is not None:
        return named_path(explicit)
    if env.get("FMHA_CACHE_DIR"):
        return named_path(env["FMHA_CACHE_DIR"])
    xdg = env.get("XDG_CACHE_HOME", "")
    if xdg and Path(xdg).is_absolute():
        return _writable_or_temporary(Path(xdg) / "fmha")
    from platformdirs import user_cache_path

    try:
        default = user_cache_path("fmha", appauthor=False).absolute()
    except RuntimeError as fault:
        raise no_home("set HOME, or name the cache: --cache-dir DIR or FMHA_CACHE_DIR") from fault
    return _writable_or_temporary(default)


def temporary_root() -> Path:
    """The user's cache in the system's folder for temporary files. It is checked like every other root when it is opened."""
    return Path(tempfile.gettempdir()).absolute() / f"fmha-cache-{user_id()}"


def _writable_or_temporary(default: Path) -> Path:
    """The default cache, or the temporary one where the default, or the folder in which it would be made, cannot be written."""
    here = next((folder for folder in (default, *default.parents) if folder.exists()), default)
    return default if os.access(here, os.W_OK | os.X_OK) else temporary_root()


def open_root(root: Path, *, create: bool = True) -> CacheLayout:
    """Create the root (0700) if necessary, and refuse it when another user could put code into it.

    The check covers the root, the link if it is a symlink, and every directory directly below it. It does not cover the
    ancestors: a user who may rename those can only substitute a directory that the next start refuses. A process of the
    same user (or root) can always replace the files in the cache. The digests guard against accidents, the modes
    against other users.

    Raises:
        EnvironmentProblem: it belongs to another user, is writable by group or others, is not a directory, or cannot be
            created.
    """
    layout = CacheLayout(root)
    if create:
        with as_environment_problem("creating the cache directory"):
            make_private_dir(root)
        if not root.is_dir():
            raise _unsafe(root, "it is not a directory")
    else:
        with as_environment_problem("looking for the cache directory"):
            if not root.exists():
                return layout
    if root.is_symlink():
        _refuse_foreign_link(root)
    for path in (root, *layout.rooms):
        _refuse_unsafe(path, root)
    return layout


def _refuse_foreign_link(root: Path) -> None:
    """Refuse another user's link, because that user can change its target."""
    with as_environment_problem("checking the cache directory"):
        owner = foreign_owner(root.lstat())
    if owner:  # root's links are trusted
        raise _unsafe(root, f"it is a symlink that belongs to uid {owner}, not to you (uid {user_id()})")


def _refuse_unsafe(path: Path, root: Path) -> None:
    """Refuse a directory that others own or may write to. A missing one is accepted: it will be created private."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return
    except OSError as error:
        raise _unsafe(path, f"it cannot be examined: {error.strerror}") from error
    if not stat.S_ISDIR(status.st_mode):
        raise _unsafe(path, "it is not a directory")
    if (owner := foreign_owner(status)) is not None:
        raise _unsafe(path, f"it belongs to uid {owner}, not to you (uid {user_id()})")
    if writable_by_others(status):
        mode = f"{stat.S_IMODE(status.st_mode):04o}"
        raise _unsafe(path, f"others may write to it (mode {mode})", help=f"chmod 700 {root}")


def _unsafe(path: Path, why: str, help: str | None = None) -> EnvironmentProblem:
    return EnvironmentProblem(
        "the kernel cache is not safe to load code from",
        code="B001",
        where=str(path),
        why=why,
        help=help or "point FMHA_CACHE_DIR at a directory of your own, or remove this one",
    )

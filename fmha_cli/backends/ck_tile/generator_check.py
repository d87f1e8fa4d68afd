"""Whether the generator of the user's checkout takes a tune configuration: it must list the kernels that were tuned."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from fmha_cli.backends.ck_tile.revisions import HOME_OPTION
from fmha_cli.backends.ck_tile.tree import include_below
from fmha_cli.toolchain.process import TimeLimits, run_group

VARIABLE = "CK_TILE_FMHA_FWD_CUSTOM_TUNE_CONFIG_FILE"
"""Must be set when the generator lists kernels and when it writes them."""

_OTHER = "CK_TILE_FMHA_FWD_CUSTOM_FACTORY"
"""aiter's tool sets it to 0 together with the other."""

_EXAMPLE = Path("example", "ck_tile", "01_fmha")
_SUFFIX = re.compile(r"_gfx\d+$")
_TIMEOUT_S = 120.0


def check_config(
    config: str, arch: str, names: Sequence[str | None], options: Mapping[str, str]
) -> tuple[str | None, str | None]:
    """The finding of the generator of ``--ck-home`` about a configuration, or why there is none; one of them is None.

    Args:
        names: upstream's names of the kernels that its list must contain.
    """
    home = options.get(HOME_OPTION)
    if home is None:
        return None, f"--{HOME_OPTION} DIR names a checkout whose generator can check the file"
    folder = _generator(Path(home))
    if folder is None:
        return None, f"{home} has no generator ({_EXAMPLE / 'generate.py'})"
    if not any(VARIABLE in path.read_text("utf-8", "replace") for path in (folder / "codegen").rglob("*.py")):
        return None, f"the generator in {folder} does not read {VARIABLE}: it is older"
    with tempfile.TemporaryDirectory() as scratch:
        listed, why = _list_stems(folder, config, arch, Path(scratch))
    if listed is None:
        return None, why
    wanted = {_SUFFIX.sub("", name) for name in names if name is not None}
    missing = sorted(wanted - {_SUFFIX.sub("", name) for name in listed})
    if missing:
        return None, f"the generator lists {len(listed)} kernels, and {missing[0]} is not among them"
    return f"the generator in {folder} lists all {len(wanted)} kernels", None


def _generator(home: Path) -> Path | None:
    include = include_below(home)
    places = [home] if include is None else [include.parent, home]
    return next((place / _EXAMPLE for place in places if (place / _EXAMPLE / "generate.py").is_file()), None)


def _list_stems(folder: Path, config: str, arch: str, scratch: Path) -> tuple[set[str] | None, str | None]:
    """The stems of the kernels that the generator lists with a configuration, or why it does not."""
    file, blobs, log = scratch / "tune.json", scratch / "blobs.txt", scratch / "log"
    file.write_text(config, "utf-8")
    words = [sys.executable, "-B", str(folder / "generate.py"), "--targets", arch, "--api", "fwd"]
    env = {**os.environ, VARIABLE: str(file), _OTHER: "0", "PYTHONDONTWRITEBYTECODE": "1"}
    with log.open("wb") as stream:
        try:
            ended = run_group(
                [*words, "--list_blobs", str(blobs)],
                cwd=scratch,
                env=env,
                output=stream,
                limits=TimeLimits(wall_s=_TIMEOUT_S),
            )
        except OSError as fault:
            return None, f"the generator does not start: {fault.strerror}"
    said = log.read_text("utf-8", "replace").strip().splitlines()
    if ended.returncode or not blobs.exists():
        return None, f"the generator failed: {said[-1] if said else f'exit status {ended.returncode}'}"
    return {Path(line).stem for line in blobs.read_text("utf-8").split()}, None

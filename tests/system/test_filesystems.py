"""Which file systems count as those of a network, and how the one of a path is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from fmha_cli.system.files import network_file_system

MOUNTS = """\
22 1 253:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:40 / {home} rw,relatime shared:5 - nfs4 server:/export rw,vers=4.2
31 30 0:41 / {home}/local rw,relatime - xfs /dev/vdb rw
32 22 0:42 / {home}x rw,relatime - cifs //server/share rw
33 22 0:43 / {space} rw,relatime master:2 propagate_from:1 - fuse.sshfs me@server: rw
34 22 0:44 / {twice} rw - nfs server:/old rw
35 22 0:45 / {twice} rw - tmpfs tmpfs rw
cut short
"""


@pytest.fixture
def mounts(tmp_path: Path) -> Path:
    names = {name: str(tmp_path / name) for name in ("home", "twice")}
    text = MOUNTS.format(**names, space=str(tmp_path / "with space").replace(" ", "\\040"))
    (tmp_path / "mountinfo").write_text(text)
    return tmp_path / "mountinfo"


@pytest.mark.parametrize(
    ("place", "found"),
    [
        ("home", "nfs4"),
        ("home/me/.local/share/fmha", "nfs4"),
        ("home/local/data", None),
        ("homex/data", "cifs"),
        ("homey", None),
        ("with space/data", "fuse.sshfs"),
        ("twice/data", None),
        ("", None),
    ],
)
def test_the_innermost_mount_counts(mounts: Path, place: str, found: str | None) -> None:
    assert network_file_system(mounts.parent / place, mounts) == found


def test_a_link_leads_to_where_it_points(mounts: Path) -> None:
    link = mounts.parent / "link"
    link.symlink_to(mounts.parent / "home")
    assert network_file_system(link / "data", mounts) == "nfs4"


def test_a_system_that_does_not_tell_has_none(tmp_path: Path) -> None:
    assert network_file_system(tmp_path, tmp_path / "none") is None


def test_a_share_of_windows_is_known_by_its_name(tmp_path: Path) -> None:
    assert network_file_system(Path("\\\\server\\share\\data"), tmp_path / "none") == "smb"

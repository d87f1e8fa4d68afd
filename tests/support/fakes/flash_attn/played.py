"""Jobs for a worker that the fixture ``played`` gives the stand-in driver."""

from __future__ import annotations

import hashlib
from pathlib import Path

from fmha_cli.domain.plan import Artifact
from fmha_cli.run.job import WorkerJob
from tests.support.fakes.flash_attn.cubins import fake_cubins
from tests.support.generators.flash_attn.plans import device_for, plan_for

ENTRY = "fmha_cli.backends.flash_attn"
PLAIN = "-b 1 -H 2 -s 40 -d 64 --splits 1"
OTHER = "-b 1 -H 2 -s 40 -d 128 --splits 1"


def job_for(line: str, folder: Path, entry: str = ENTRY, arch: str = "sm_90") -> WorkerJob:
    plan = plan_for(line, arch)
    log = folder / "log"
    log.touch()
    artifacts = tuple(
        Artifact(path, hashlib.sha256(path.read_bytes()).hexdigest(), path.stem, log, False, 0.0)
        for path in fake_cubins(plan, folder)
    )
    return WorkerJob(entry=entry, device=device_for(arch), plan=plan, artifacts=artifacts)

"""Workers that Slurm starts: the cluster of dask-jobqueue, whose jobs run ``fmha worker`` on all devices of their node.

Source: dask_jobqueue/core.py ``Job`` and dask_jobqueue/slurm.py ``SLURMJob`` (0.9): the script, and the options by name.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.suggest import suggest
from fmha_cli.sweeps.addresses import Tls, need_dask

if TYPE_CHECKING:
    from dask_jobqueue import SLURMCluster
    from dask_jobqueue.core import Job

OPTIONS: Mapping[str, str] = {
    "queue": "the partition (sbatch -p)",
    "account": "sbatch -A",
    "walltime": "sbatch -t",
    "cores": "cores of a job",
    "memory": "memory of a job, as 64GB",
    "gres": "sbatch --gres, as gpu:4",
    "constraint": "sbatch -C",
    "jobs": "number of jobs",
    "devices": "devices of each job: all, or ids with +",
}
"""Names in ``slurm:NAME=VALUE,...``, and what they mean."""

_DEFAULTS = {"cores": "8", "memory": "32GB", "walltime": "01:00:00", "jobs": "1", "devices": "all"}


def slurm_cluster(options: Mapping[str, str], tls: Tls) -> SLURMCluster:
    """A cluster without jobs yet; the option ``jobs`` says how many to ask for. Its scheduler runs in this process.

    Raises:
        EnvironmentProblem: X063, dask-jobqueue is not installed.
        UsageError: E002, an unknown name.
    """
    job, more = job_of(options, tls)
    from dask_jobqueue import SLURMCluster

    return SLURMCluster(
        n_workers=0,
        job_cls=job,
        protocol="tls://",
        security=tls.security(),
        scheduler_options={"dashboard_address": None},
        **more,
    )


def job_of(options: Mapping[str, str], tls: Tls) -> tuple[type[Job], dict[str, Any]]:
    """The class of a job, and the arguments that Dask makes one with.

    Raises:
        EnvironmentProblem, UsageError: as ``slurm_cluster``.
    """
    unknown = next((name for name in options if name not in OPTIONS), None)
    if unknown is not None:
        help = suggest(unknown, tuple(OPTIONS), otherwise=f"one of {', '.join(OPTIONS)}")
        raise UsageError(f"--scheduler slurm: {unknown}", code="E002", where="--scheduler", help=help)
    cores = number_of("cores", options)
    need_dask("dask_jobqueue")
    from dask_jobqueue.slurm import SLURMJob

    given = {**_DEFAULTS, **options}
    command = [
        *("worker", "--devices", given["devices"].replace("+", ",")),
        *("--tls-ca", tls.ca, "--tls-cert", tls.cert, "--tls-key", tls.key, "--scheduler"),
    ]

    class FmhaJob(SLURMJob):  # type: ignore[misc]  # the library has no types
        """A job whose command is ``fmha worker`` in place of Dask's own worker."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            python = str(vars(self)["_command_template"]).partition(" ")[0]
            self._command_template = shlex.join([python, "-m", "fmha_cli", *command, str(self.scheduler)])

    directives = [f"--gres={given['gres']}"] if "gres" in given else []
    directives += [f"-C {given['constraint']}"] if "constraint" in given else []
    return FmhaJob, {
        "queue": given.get("queue"),
        "account": given.get("account"),
        "walltime": given["walltime"],
        "cores": cores,
        "processes": 1,
        "memory": given["memory"],
        "job_extra_directives": directives,
        "job_name": "fmha-worker",
    }


def number_of(name: str, options: Mapping[str, str]) -> int:
    """The number that an option gives, such as ``jobs``. Raises UsageError: E002, no number."""
    text = options.get(name, _DEFAULTS[name])
    if not re.fullmatch(r"[0-9]{1,9}", text) or not int(text):
        raise UsageError(f"--scheduler slurm: {name}={text}", code="E002", where="--scheduler", help="a number above 0")
    return int(text)

"""The script with which Slurm starts workers. No Slurm runs it here."""

from __future__ import annotations

import pytest

pytest.importorskip("dask_jobqueue")

from fmha_cli.domain.errors import UsageError
from fmha_cli.sweeps.addresses import Tls
from fmha_cli.sweeps.slurm import job_of, number_of

TLS = Tls(ca="/certs/ca.pem", cert="/certs/cert.pem", key="/certs/key.pem")

SCRIPT = """#!/usr/bin/env bash

#SBATCH -J fmha-worker
#SBATCH -p gpu
#SBATCH -A attention
#SBATCH -n 1
#SBATCH --cpus-per-task=16
#SBATCH --mem=60G
#SBATCH -t 02:00:00
#SBATCH --gres=gpu:4
#SBATCH -C h100

python3 -m fmha_cli worker --devices cuda:0,cuda:1 --tls-ca /certs/ca.pem --tls-cert /certs/cert.pem \
--tls-key /certs/key.pem --scheduler tls://10.0.0.1:8786
"""


@pytest.mark.promise("Slurm gets a script that asks for the resources and starts workers.")
@pytest.mark.slow
@pytest.mark.ci
def test_the_script_asks_for_the_resources_and_starts_workers() -> None:
    given = {"queue": "gpu", "account": "attention", "walltime": "02:00:00", "cores": "16", "memory": "64GB"}
    kind, options = job_of({**given, "gres": "gpu:4", "constraint": "h100", "devices": "cuda:0+cuda:1"}, TLS)
    job = kind("tls://10.0.0.1:8786", name="0", python="python3", **options)
    assert job.job_script() == SCRIPT


def test_an_unknown_option_gets_the_one_that_was_meant() -> None:
    with pytest.raises(UsageError) as caught:
        job_of({"quue": "gpu"}, TLS)
    assert caught.value.help == "did you mean queue?"


@pytest.mark.parametrize("text", ["0", "many", "-1"])
def test_jobs_are_a_number(text: str) -> None:
    with pytest.raises(UsageError):
        number_of("jobs", {"jobs": text})
    assert number_of("jobs", {}) == 1

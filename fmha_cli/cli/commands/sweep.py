"""``fmha sweep`` and ``fmha worker``: many rows over many devices."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from fmha_cli.cli.command import CommandSpec, Opt
from fmha_cli.cli.commands.run import AB, FILLS, MEASURING, ONLY, REPEATS
from fmha_cli.cli.options import (
    ALL_KERNELS,
    BACKEND,
    CHECK_BUDGET,
    DRY_RUN,
    EMULATING,
    FILES,
    FILL_SEED,
    KEPT,
    LABEL,
    NO_CHECK,
    NO_PROBE,
    REVISIONS,
    ROOM,
    ROWS,
    RUNNING,
    SELECT,
    WORKLOAD,
)
from fmha_cli.domain.flags import FlagKind

_spreading = partial(Opt, panel="Spreading")
DEVICES = _spreading(
    "devices",
    FlagKind.TEXT,
    "all, or devices with commas; emu:ARCH*N is one emulated N times [default: all]",
    metavar="all|ID,...",
    lists=True,
)
SCHEDULER = _spreading(
    "scheduler",
    FlagKind.TEXT,
    "Where the workers are: local, a Dask scheduler, or jobs of Slurm [default: local]",
    metavar="local|tcp://HOST:PORT|slurm:NAME=VALUE,...",
    lists=True,
)
ADDRESS = replace(
    SCHEDULER,
    help="Address of a Dask scheduler, which `dask scheduler` starts",
    metavar="tcp://HOST:PORT|tls://HOST:PORT",
)
TLS = (
    _spreading("tls-ca", FlagKind.FILE, "Certificate of the authority that both sides trust (PEM)"),
    _spreading("tls-cert", FlagKind.FILE, "Certificate of this side (PEM)"),
    _spreading("tls-key", FlagKind.FILE, "Key of this side's certificate (PEM)"),
)
CHUNK, TRIES, SILENCE_S = 16, 2, 60.0
"""Defaults of ``--chunk``, ``--retries`` and ``--silence``."""
STEP = _spreading(
    "step", FlagKind.TEXT, "What is done with each row [default: bench]", choices=("run", "validate", "bench")
)
CHUNK_OPTION = _spreading("chunk", FlagKind.SIZE, f"Rows that a worker gets at once [default: {CHUNK}]")
RETRIES = _spreading(
    "retries", FlagKind.SIZE, f"How often a row runs again after its worker died with it [default: {TRIES}]"
)
SILENCE = _spreading(
    "silence",
    FlagKind.NUMBER,
    f"Seconds without a sign of life after which a worker is given up [default: {SILENCE_S:g}]",
    metavar="S",
)
OVERLAP = _spreading(
    "overlap",
    FlagKind.TEXT,
    "Share of the problems that run on every device and host, to compare these [default: 0%]",
    metavar="N%",
)
TIME_LIMIT = _spreading(
    "time-limit",
    FlagKind.NUMBER,
    "Seconds after which the sweep ends; the rows that are left are NOT_RUN, and --resume runs them",
    metavar="S",
)
PROBLEMS = Opt(
    "problems",
    FlagKind.FILE,
    "Problems that differ in anything: the flags of one in each line, in place of flags here; # begins a comment",
    panel="Problem",
)
RESUME = _spreading(
    "resume",
    FlagKind.TEXT,
    "Finish a sweep: its id, its label, or latest; takes no other options of problems",
    metavar="RUN",
)
SPREADING = (DEVICES, SCHEDULER, *TLS, STEP, CHUNK_OPTION, RETRIES, SILENCE, OVERLAP, TIME_LIMIT, RESUME)
OPTIONS = (
    *(option for option in ROOM if option.name != "device"),
    WORKLOAD,
    *FILES[:4],
    PROBLEMS,
    *SPREADING,
    *(SELECT, ALL_KERNELS, AB, ONLY, FILLS, FILL_SEED, REPEATS),
    *(*MEASURING, CHECK_BUDGET, NO_CHECK, NO_PROBE, DRY_RUN),
    *(*RUNNING, *REVISIONS, *EMULATING, LABEL, *KEPT, *ROWS),
)

COMMANDS = {
    "worker": CommandSpec(
        "worker:worker",
        options=(ADDRESS, DEVICES, *TLS, BACKEND),
        detail="One worker for each device, in a Dask cluster (pip install fmha[dask]). It runs the chunks of fmha sweep "
        "--scheduler ADDRESS, each in a process that holds the device's lease. A worker that dies is replaced. The port of a "
        "scheduler runs what is sent to it, so beyond this machine all sides need certificates.",
    ),
    "sweep": CommandSpec(
        "sweep:sweep",
        options=OPTIONS,
        documents=("report",),
        detail="All rows are planned and kept before the first one runs. Each device has a worker, which holds "
        "the device's lease; equal devices share the rows, and every other kind of device gets each row once. A row is executed "
        "at least once and recorded exactly once. A row with which a worker died runs again; after the retries it is CRASHED. "
        "After Ctrl-C, or when this command was killed, --resume RUN runs the rows that are left.",
    ),
}

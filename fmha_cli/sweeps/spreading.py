"""``Finder``: the devices of a sweep and its scheduler, by ``--scheduler`` and ``--devices``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from fmha_cli.discovery.registry import Registry
from fmha_cli.run.request import Command
from fmha_cli.run.supervisor import Supervisor
from fmha_cli.sweeps.addresses import Address, Tls, Where
from fmha_cli.sweeps.cluster import ClusterScheduler
from fmha_cli.sweeps.folder import Spec
from fmha_cli.sweeps.leases import state_folder
from fmha_cli.sweeps.local import LocalScheduler
from fmha_cli.sweeps.opening import Found, planned_sweep
from fmha_cli.sweeps.places import WorkerPlace, local_places, parse_devices, timed_alone
from fmha_cli.sweeps.plan import SweepPlan
from fmha_cli.sweeps.scheduler import Scheduler
from fmha_cli.sweeps.slurm import number_of, slurm_cluster


def shares(spec: Spec, address: Address) -> bool:
    """Whether several workers may share a device: on this machine, where none of them times anything."""
    return address.where is Where.LOCAL and spec.request.command is not Command.BENCH


class Finder:
    """Finds the devices first, then gives the scheduler that uses them.

    Args:
        tls: certificates; None for a scheduler on this machine.
        environ: variables, for the folder of states.
    """

    def __init__(
        self, spec: Spec, address: Address, tls: Tls | None, registry: Registry, environ: Mapping[str, str]
    ) -> None:
        self._spec, self._address, self._tls, self._registry, self._environ = spec, address, tls, registry, environ
        self._cluster: ClusterScheduler | None = None
        self._closing: list[Callable[[], object]] = []

    def find(self, supervisor: Supervisor) -> Found:
        """The kinds of devices, and every device.

        Raises:
            UsageError: the processor is to be timed together with other devices.
            EnvironmentProblem: no such device, no cluster, no extra.
        """
        asked = parse_devices(self._spec.devices, shared=shares(self._spec, self._address))
        if self._address.where is Where.LOCAL:
            kinds, places = local_places(asked, self._registry, self._spec.request.wanted, supervisor)
        else:
            kinds, places = self._joined().find(asked)
        if self._spec.request.command is Command.BENCH:
            timed_alone(places)
        return kinds, places

    def planned(self, notify: Callable[[str], None]) -> tuple[SweepPlan, Sequence[WorkerPlace]]:
        """The plan and the devices, for a call that runs nothing.

        Raises:
            UsageError, EnvironmentProblem, UnsupportedError: as ``find`` and ``planned_sweep``.
        """
        with Supervisor() as supervisor:
            kinds, places = self.find(supervisor)
        return planned_sweep(self._spec, self._registry, kinds, places, notify), places

    def _joined(self) -> ClusterScheduler:
        url, security = self._address.url, None if self._tls is None else self._tls.security()
        if self._address.where is Where.SLURM and self._tls is not None:
            cluster = slurm_cluster(self._address.options, self._tls)
            self._closing.append(cluster.close)
            cluster.scale(jobs=number_of("jobs", self._address.options))
            url = cluster.scheduler_address
        self._cluster = ClusterScheduler(
            url, self._spec.run, self._spec.request, security, silence_s=self._spec.silence_s
        )
        self._closing.append(self._cluster.close)
        return self._cluster

    def scheduler(self, places: Sequence[WorkerPlace], folder: Path) -> Scheduler:
        """The object that gives chunks to the devices."""
        if self._cluster is not None:
            return self._cluster
        return LocalScheduler(places, state_folder(self._environ), folder, self._spec.run, self._spec.silence_s)

    def close(self) -> None:
        """Leave the cluster; jobs of Slurm are cancelled."""
        while self._closing:
            self._closing.pop()()

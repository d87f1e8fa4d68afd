"""What differs between operating systems, one module for each concern; every system call that one of them lacks is here.

====================================  ================  =====================================  ========================================
concern                               module            Linux and macOS                        Windows
====================================  ================  =====================================  ========================================
locks of the cache and of journals    ``locks``         ``flock``                              one byte, ``msvcrt.locking``; without
                                                                                               either, work goes on without a lock
flags, owners and modes of files      ``files``         all                                    no owners and modes, no durable names
groups of processes                   ``processes``     session, ``killpg``                    process group, ``taskkill /T``
end with the parent                   ``processes``     lifeline pipe; on Linux               none
                                                        ``PR_SET_PDEATHSIG`` too
seconds and peak of a compiler        ``usage``         ``wait4``                              unknown (null)
seconds of a compiler that runs       ``processes``     Linux ``/proc``; macOS: since start    since its start
cores, memory                         ``machine``       ``sched_getaffinity``, ``sysconf``     ``cpu_count``, ``GlobalMemoryStatusEx``
features of the processor             ``machine``       ``/proc/cpuinfo``; ``sysctl`` on Arm   ``generic``
memory shared with the worker         ``handover``      descriptors over a Unix socket         refused (X020): no ``socket.send_fds``
====================================  ================  =====================================  ========================================

On Linux, tests run child processes without the modules and calls that the other system lacks (``tests/support/fakes/other_systems.py``). There, every
module is imported; as macOS, a forward and a backward row pass; as Windows, everything except running rows works. Neither has been run on the
system itself: NOT_RUN. To run rows on Windows, the worker needs a named mapping for its arena, a reader of its output without a selector, and a
suffix for the library that it loads. The CPU kernels built by zig for Windows ran right under wine.
"""

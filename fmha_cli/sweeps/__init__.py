"""Sweeps: many rows over many devices and hosts. The driver plans all rows and alone records them; workers run chunks of them.

- Rows: all are planned and kept before the first one runs, and the same number comes out. A row is executed at least once and recorded
  exactly once: the first record counts, and a later one is dropped.
- Leases: one worker at a time uses a device, however many sweeps run. A lease is a lock of a file in the state folder; the worker and its kernel's
  process inherit it, so a device is free when the last process that may use it has ended.
- Choice: the driver reads the store of tuned kernels once, and all workers and later sessions choose from that. Workers of a cluster choose by default,
  because a tuned kernel counts only on the machine on which it was tuned.
- Deaths: the rows of a dead worker go to another one. The row that was running is given out alone, and is CRASHED after the retries. A place where three
  workers in succession died is set aside. A worker that is silent for ``--silence`` seconds is given up; its later
  messages are ignored.
- Builds: rows that need the same kernels are in separate chunks. A kernel is built once: on one machine by the lock of
  the build cache, in a cluster by the first worker that gets such a chunk. The others get the entries of its cache and
  verify their digests.
"""

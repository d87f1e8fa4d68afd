"""The execution room: shared-memory arena, worker process, supervisor, journal and judge."""

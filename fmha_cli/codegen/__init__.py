"""Turn a KernelSpec into source text, with pure functions that use the standard library only and write no files."""

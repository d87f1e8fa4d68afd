"""The HIP runtime through hip-python: devices, memory, streams, events, and errors with HIP's own texts."""

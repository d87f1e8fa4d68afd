"""The HIP runtime through hip-python: devices, memory, streams, events, errors in HIP's own words."""

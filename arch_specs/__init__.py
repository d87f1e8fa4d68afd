"""Facts about architectures, as JSON data with provenance."""

"""The JSON documents: for each, the dataclass, the function that makes the document, and its table.

A document's members, their descriptions and their columns are declared once, with the fields of the dataclass. The
schema that ``fmha schema NAME`` prints is generated from them. A module has the name of its document, or holds several.
"""

SEVERAL = {
    "explain": ("explain", "why"),
    "installation": ("archs", "devices", "doctor", "plugins", "profiles", "sources"),
    "workloads": ("workload", "workloads"),
    "pages": ("environment", "error", "journal", "record", "rule", "rulebook", "schemas"),
}
"""The documents of each module that holds several."""

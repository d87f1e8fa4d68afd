"""The JSON documents, one module each: the dataclass, the function that makes the document, and its table.

A document's members, their descriptions and their columns are declared once, with the fields of the dataclass. The
schema that ``fmha schema NAME`` prints is generated from them.
"""

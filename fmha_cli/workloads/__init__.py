"""Files with problems and their counts: a client's own recording, and what other programs write."""

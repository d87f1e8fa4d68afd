"""The results of a run: records, the JSON documents around them, and their printed forms."""

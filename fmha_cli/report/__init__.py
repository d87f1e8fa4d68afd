"""What a run leaves behind: records, the JSON documents around them, and their printed forms."""

"""The nouns of the product, and the pure functions over them. Standard library only."""

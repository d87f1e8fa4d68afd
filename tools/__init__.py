"""Programs that write or check the pages of this repository. The product does not import them."""

"""One module for each plot of a page."""

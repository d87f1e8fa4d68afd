"""Times without a device: sampling, statistics, rooflines, comparisons, and the search of tuning."""

"""How times are taken and judged: statistics, the stopping rule, the roofline, A/B and baselines."""

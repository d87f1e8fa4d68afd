"""Results as one self-contained HTML page with plots, and as SVG files. Altair and vl-convert (extra ``report``) draw.

The page holds its data, its charts and the JavaScript that draws them. Every plot states device, caches, threads, kind of peak and number of
samples, and says in words what is missing where it has no data.

- ``throughput``: FLOP/s against the sequence length, a line for each backend or kernel, a panel for each head dim, type and mask. Bands and bars
  are 95 % intervals of the median; hollow points have fewer than 6 samples; a star marks the fastest of several backends.
- ``roofline``: FLOP/s against FLOP/byte. Solid ceilings are measured, dashed ones are from the data sheet; the ceiling of memory comes from rows
  with cold caches.
- ``regret``: per cent slower than the best kernel or backend of a problem. A blue frame marks the choice of ``auto``; hatched cells are UNSURE.
- ``history``: a point over the runs of the store, with its sure changes: the ones that ``fmha compare`` would call sure
  against the last 5 runs before it.
- ``compare``: the ratio of each compared row with its interval; the tolerance is a band, unsure rows are grey.
- ``samples``: the samples of a chosen row by process.
- ``verdicts``: rows by verdict and first reason.

Below the plots, tables have every row, rows without a time and why, and the environment of each run. A page has at most 2 MB for 1,000 rows of
8 processes: samples are kept as 11 quantiles of each process (fewer for many thousand processes, as the caption then says), and plots as
48 panels; 60 problems by 40 columns; the 80 rows farthest from 1; histories of 40 rows, the last 200 runs of each. A
line below a plot names the omitted rows. Tables are never cut.
"""

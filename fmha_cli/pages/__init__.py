"""Results as one self-contained HTML page with plots, and as SVG files. Altair and vl-convert (extra ``report``) draw."""

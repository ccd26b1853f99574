"""What `explain` and `trace` found, drawn: as SVG, and as one page to step through."""

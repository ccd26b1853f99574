"""Pictures of the results of `explain` and `trace`: SVG, and one page with steps."""

"""Pictures for `explain` and `trace`: SVG files, and HTML pages to step through."""

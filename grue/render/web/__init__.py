"""The parts of the page: sentences and marks, templates, style and script."""

"""What the page is made of: its sentences and marks, templates, style and script."""

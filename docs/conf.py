"""The configuration of Sphinx for the site of these pages: `make docs`."""

project = "zyda-flows"
author = "the maintainers of zyda-flows"
extensions = ["myst_parser"]
html_theme = "furo"
html_title = "zyda-flows"
html_show_copyright = False
myst_heading_anchors = 3
exclude_patterns = ["_build"]

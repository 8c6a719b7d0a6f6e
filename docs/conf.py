"""Sphinx configuration."""

from molrec_convert import __version__

project = "molrec-convert"
author = "The molrec-convert authors"
copyright = "2026, the molrec-convert authors"
release = version = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
html_theme = "alabaster"
html_theme_options = {"description": "Molecular simulation data to and from MolRec records", "page_width": "1080px"}
myst_heading_anchors = 3
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
nitpicky = False

"""Self-contained pages: one HTML file with text, tables and pictures that needs nothing from the network."""

from condcs.report._page import Page

__all__ = ["Page"]

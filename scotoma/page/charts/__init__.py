"""The charts of pages, as Vega-Lite files."""

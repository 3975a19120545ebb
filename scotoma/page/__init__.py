"""How does a page look? Templates, styles, the script, and the charts."""

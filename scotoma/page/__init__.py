"""How a page looks: templates, styles, the script, and the charts."""

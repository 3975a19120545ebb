"""How large an audit must be, and what an audit of a given size can find."""

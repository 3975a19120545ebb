"""How large must an audit be, and what can one of a given size find?"""

"""PASS, UNSURE or FAIL? From the numbers of an audit to a decision that can be defended.

FAIL says that harm beyond a margin is shown, PASS that it is ruled out, each at a stated risk of
being wrong; UNSURE says neither, and what would settle it.
"""

"""How much more does a compressed model lose on worse pictures, and for whom?

Every number is a function of right answers to clean and corrupted pictures of the same examples:
differences are paired by example, and by member where variants share one.
"""

"""Which layers did it?"""

"""What is measured on each example, and what do the examples of a slice add up to?"""

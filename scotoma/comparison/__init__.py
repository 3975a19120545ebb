"""What changed between two models on the same examples, and for whom?

Pure functions of arrays: right and wrong answers or any other score, a column a model, rows of one
cluster where an example was evaluated again.
"""

"""Which conjunctions of features are looked at, and in which order?"""

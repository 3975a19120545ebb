"""How are slices found in a table that no machine holds?"""

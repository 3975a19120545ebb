"""Is a slice worse by more than chance?"""

"""How are members trained and pruned?"""

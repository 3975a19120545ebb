"""Which labels of changed examples are wrong, and what are the rates without them?"""

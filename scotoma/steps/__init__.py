"""Which steps has an audit, and what does each open, call and write?"""

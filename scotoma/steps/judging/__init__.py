"""What a verdict is given from: the audit, the rules, the previous audit."""

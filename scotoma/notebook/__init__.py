"""What a notebook uses: finished audits, and answers that it holds itself."""

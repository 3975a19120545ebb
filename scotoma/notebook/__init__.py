"""What does a notebook use? Finished audits, and answers that it holds itself."""

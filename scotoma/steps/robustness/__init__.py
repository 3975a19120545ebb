"""Members on corrupted pictures and other test sets: which are run, and what they predict."""

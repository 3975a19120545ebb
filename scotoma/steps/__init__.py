"""The steps of an audit: a table of them, one runner, and a function for each."""

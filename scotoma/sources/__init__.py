"""What is an audit made from? A file a kind: its settings, and how it is read."""

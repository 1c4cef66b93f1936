"""What the tests share: see README.md."""

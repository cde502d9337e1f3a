"""What the README claims, measured again: accuracy by runtime, what to learn from, speed."""

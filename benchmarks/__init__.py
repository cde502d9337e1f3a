"""What the README claims, measured again: accuracy by runtime, ways to learn, speed."""

"""Results as people see them."""

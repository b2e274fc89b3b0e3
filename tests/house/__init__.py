"""The house's rules, as tests: each says which rule is broken, where, and what mends it."""

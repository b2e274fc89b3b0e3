"""An agent's own names for its tools and what they are given, turned into those that all hosts share: one module per
host, for its hooks and its transcripts alike, so that both tell of a call in the same words. Hooks load it: no cost."""

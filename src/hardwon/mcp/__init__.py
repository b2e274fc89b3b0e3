"""MCP for agents: `server` speaks the protocol, `tools` has what agents may ask."""

"""What goes on in a running hub, for whoever watches it: `call_requests` (operations that are over, and that run)."""

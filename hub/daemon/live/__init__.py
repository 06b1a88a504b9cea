"""What goes on in a running hub, for whoever watches it: `live_requests` (operations, and everything at a glance),
`waiting_items` (what waits for a person)."""

"""What goes on in a running hub, for whoever watches it: `calls_and_overview` (operations, and everything at a glance),
`waiting_items` (what waits for a person)."""

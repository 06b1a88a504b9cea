"""What goes on, as it goes on: `logs_command` (logs), `calls_command` (calls), `top_view` and `top_command` (top),
`metrics_command` (metrics), `dashboard_command` (in a browser)."""

"""What goes on, as it goes on: `logs_command` (logs), `calls_command` (calls)."""

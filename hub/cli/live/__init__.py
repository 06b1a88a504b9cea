"""What goes on, as it goes on: `logs_command` (logs), `calls_command` (calls), `top_command` (top).

What they show is made by `hub.cli.render`; `top_page` is the page of `top` as keys change it, pure.
"""

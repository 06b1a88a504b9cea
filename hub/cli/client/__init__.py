"""The command line as a host of the hub: what any MCP host can do, from a shell.

`declare_commands` has the words of `call`, `read`, `prompt` and their like, `requests` carries them out; `connection`
is the session with the hub, which it starts; `retry_while_servers_start` waits for servers that are not connected yet;
`person_at_terminal` asks the person at the terminal what servers ask; `arguments` makes arguments of words,
`tool_signature` shows how a tool is called, `answers` what came of it (all pure).
"""

"""Rules on the command line: what they say, and what people say to them.

`policy` has `hubd policy` and `hubd policy explain`; `pins` shows what servers have changed; `approvals` has what waits
for a person and how people say yes to either (`hubd approvals`, `approve`, `deny`), and the person at the terminal of
`hubd call`. `audit_commands` shows what was written down of calls.
"""

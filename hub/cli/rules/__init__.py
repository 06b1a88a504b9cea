"""Rules on the command line: what they say, and what people say to them.

`policy` has `hubd policy` and `hubd policy explain`; `approvals` has what waits for a person (`hubd approvals`,
`deny`), and the person at the terminal of `hubd call`; `pins` shows what servers have changed; `approve` is how people
say yes to either. `audit_commands` shows what was written down of calls.
"""

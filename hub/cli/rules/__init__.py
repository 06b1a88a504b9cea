"""Rules on the command line: what they say, and what people say to them.

`policy` has `hubd policy` and `hubd policy explain`.
"""

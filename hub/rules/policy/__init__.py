"""Policy: which callers may see and use which tools, prompts and resources.

Read in this order: `verdict` (what can be said of a call), `rule_book` (the rules of a configuration, and which count),
`judge` (the judge, which looks them up in tables), `audience_lists` (what hosts are shown), `gate` (the stage that
calls pass). Besides: `arguments_for_conditions` (what conditions see), `uri_forms`, `lethal_trifecta`, `overview` (what
`hubd policy` shows). Selectors and conditions are read in `config`, since what is wrong with one refuses the file.
"""

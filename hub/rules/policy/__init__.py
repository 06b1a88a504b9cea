"""Policy: which callers may see and use which tools, prompts and resources.

Read in this order: `verdict` (what can be said of a call), `rule_book` (the rules of a configuration, and which count),
`rule_tables` (which are about each entry of the catalogues), `audiences` (which are about a caller), `judge` (looks
verdicts up in these), `conditional_rules` (what depends on arguments; `arguments_for_conditions`), `audience_lists`
(what hosts are shown), `gate` (the stage that calls pass). Besides: `uri_forms`, `lethal_trifecta`, `overview` (what
`hubd policy` shows). Selectors and conditions are read in `config`, since what is wrong with one refuses the file.
"""

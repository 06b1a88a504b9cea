"""Files of servers edited as text, so that comments, order and layout around a change keep every byte. Pure.

Read in this order: `change` (one change of a text, and why one is refused), `file_shape` (where a file has its
servers), `serverfile` (the entries of a file and the three changes made to it, in any format; what everybody else
calls), and the formats beneath it, which have the same functions: `jsonc` (with comments), `toml`, `yaml`.

What always holds: a change is believed only if the changed text reads as the document that was meant. Otherwise it is
refused, and people are told what to write themselves.
"""

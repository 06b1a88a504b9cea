"""Tables of settings that `config.settings` puts together, declared as those there: `access` (who is let in over
HTTP), `oauth` (signing in at servers), `profiles` (what some hosts are shown).
"""

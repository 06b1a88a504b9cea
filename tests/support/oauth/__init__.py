"""OAuth rig: real authorization servers, one that lies, bad tokens, and somebody who signs in.

`README.md` says how tests use it. `rig` is the door: what starts each part, and `fixture` the pytest fixture `oauth`.

Programs of processes of their own: `oidc_provider.cjs` and `django_toolkit.py` are authorization servers, `liar.py`
(`lies`, `liar_*`) is a protected server with one that lies, `glewlwyd.py` starts Debian's, `token_issuer.py`
(`bad_tokens`) is one that issues tokens to refuse, `client_document.py` serves the metadata of a client over https.
`sign_in` follows redirects and fills in forms, `browser` has chromium do so (`browser.cjs`), `flow` is a client, and
`flow_steps` walks through all that one does at a server.
"""

"""Sign-ins of people at upstreams: from the ticket in a host's or terminal's hand to the grant in the store.

    begin page -- link --> authorization server -- redirect --> callback -- code --> tokens --> grant --> done page

`authorization_request` (where the browser is sent), `parse_redirect_uri` (where it comes back to) and `pages` (what
people read) are pure. `pending_sign_ins` has who was asked, and which requests are under way. `connection_owner` finds
out whose browser is at the other end of a connection, and which processes are a host's. `redirect_uris` chooses where a
browser comes back to, and `callback_listeners` listen there if the hub does not. `discover_before_sign_in` has what a
sign-in would begin with; `sign_ins` is the flow, and `finish_sign_in` its end: what a browser comes back with;
`answer_browsers` serves it. `ask_authorization_server` asks these, and says what else the flow needs of the hub and of
`upstreams.oauth`, which has what is found out about them, and kept.
"""

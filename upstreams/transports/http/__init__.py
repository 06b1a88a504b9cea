"""Servers behind a URL.

`detect` (finds out what a server speaks), `streamable_session` (what sessions of both eras share), `legacy`, `modern`
and `sse_transport` (the three kinds of session), `poster` (one message and its answer), `answer_stream` (events of an
answer), `taskless_answers` (takes answers to calls that no task waits for), `standing_stream` (what a legacy server
says unasked), `client` (keeps connections), `tcp_connection` (one of them), `request_credentials` (what every request
says of who asks), `response_parser` (heads of answers, and chunked bodies).

The place of credentials: `RequestCredentials` asks for them before each request, and again when the server refuses it.
"""

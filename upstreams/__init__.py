"""The upstream side: the hub as the client of MCP servers.

Read in this order: `lifecycle` (the states of an upstream, pure), `upstream` (what the hub calls, and its parts),
`keeper` (the task of one: connect, serve, back off), `supervisor` (all of them), `session` (what every session does).
Then, as needed:

- how it stands with an upstream: `standing` (whether it is there), `heard` (what it says unasked), `journal` and
  `chronicle` (what became of it), `mask` (without secrets), `status` (what is shown of it, pure);
- what it offers: `offered` (as far as is known), `lists` (read page by page), `rereading` (when somebody asks),
  `freshness` (how long that is good, pure), `last_known` (in an earlier run);
- whose session: `sharing` (what is configured, pure), `place` (one session, open to end), `pool` (which serves which
  host), `openings` (how they come about), `pacing` (how soon after the last), `elders` (those in the handshake era with
  servers of both), `finder` (how a call comes by one), `calls` (what it does there);
- what upstreams ask: `attribution` (whose question, pure), `running` (the operation it belongs to), `questions` (from
  arrival to answer), `elicited` (visits to pages that are done), `task_tokens` (progress of tasks);
- what hosts watch: `watch` (one resource), `watches` (over one session), `concern` (whose business a change is, pure),
  `hearing` (whether changes are heard, pure), `holdings` (over which session), `subscribing` and `listening` (how
  upstreams of either era are told), `onlooker` (who hears of changes first).

And the transports:

- stdio: `stdio`, over `peer_session` (calls that share one stream), `probe` (which era) and `child` (the process);
  `orphans` knows the processes of hubs that died, and adopts what children leave behind;
- HTTP: `http` and the modules whose names begin with it; `sse` for HTTP+SSE of 2024-11-05.

`demo` is an MCP server, not a part of this side: what `hubd serve` offers when nothing is configured.

What always holds: nobody above `session` writes in the words of a transport or an era; who shares a session depends on
both. A session is opened once and never revived; the supervisor, or `openings`, makes a new one. A call is sent at most
once, unless it is certain that it was not sent at all. Calls that a dead session leaves behind fail at once; what an
upstream offered stays listed while it is away.
"""

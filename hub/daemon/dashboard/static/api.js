// The way to the hub: requests with the session's key, and the feed. The key is in this tab only, and in no URL.

const KEY = 'hubd.key';
const SILENCE_MS = 20_000;
const LONGEST_RETRY_S = 30;
const ENDS = { signed_out: 'This session has ended.', off: 'The dashboard of this hub was turned off.' };

// An answer of the hub that is none. `kind` is its word for it, or `away`: nobody answers.
export class Problem extends Error {
  constructor(text, kind) {
    super(text);
    this.kind = kind;
  }
}

export const isSignedIn = () => sessionStorage.getItem(KEY) !== null;

export const forget = () => sessionStorage.removeItem(KEY);

// Sign in by a ticket, or by the address that has it. Raises Problem.
export async function signIn(text) {
  const ticket = text.trim().replace(/^.*#ticket=/, '');
  const { key } = await request('login', { ticket });
  sessionStorage.setItem(KEY, key);
}

// GET without a body, POST with one. Raises Problem.
export async function request(path, body) {
  const response = await send(path, body);
  const answer = await response.json().catch(() => null);
  if (response.ok && answer !== null) return answer;
  throw problemOf(response, answer);
}

async function send(path, body, signal) {
  const key = sessionStorage.getItem(KEY);
  const headers = { Accept: 'application/json' };
  if (key !== null) headers.Authorization = `Bearer ${key}`;
  if (body) headers['Content-Type'] = 'application/json';
  const rest = { cache: 'no-store', credentials: 'omit', redirect: 'error', signal };
  try {
    return await fetch(`api/${path}`, { method: body ? 'POST' : 'GET', headers, body: body && JSON.stringify(body), ...rest });
  } catch {
    throw new Problem('The hub does not answer.', 'away');
  }
}

function problemOf(response, answer) {
  if (response.status === 401) forget();
  if (answer?.kind) return new Problem(answer.error, response.status === 401 ? 'signed_out' : answer.kind);
  return new Problem('The dashboard of this hub is off: [dashboard] in hubd.toml.', 'off');
}

// The stream of events. It is open while the tab is seen, and comes back by itself.
export class Feed {
  constructor(take, tell) {
    this.take = take; // (name, data)
    this.tell = tell; // ({ word, until, problem }): `live`, `lost`, `paused`, `connecting`, `ended`
    this.log = '';
    this.turn = 0;
    document.addEventListener('visibilitychange', () => this.restart());
  }

  // Follow the log of `name` as well; "": of nobody.
  follow(name) {
    if (name === this.log && this.turn) return;
    this.log = name;
    this.restart();
  }

  restart() {
    this.stop();
    if (!isSignedIn()) return;
    if (document.hidden) this.tell({ word: 'paused' });
    else this.run(this.turn);
  }

  stop() {
    this.turn += 1;
    this.controller?.abort();
    this.wake?.();
  }

  async run(turn) {
    let failures = 0;
    while (turn === this.turn) {
      this.tell({ word: 'connecting' });
      try {
        await this.read(turn, () => { failures = 0; this.tell({ word: 'live' }); });
      } catch (problem) {
        if (turn !== this.turn) return;
        if (problem.kind === 'signed_out' || problem.kind === 'off') {
          this.tell({ word: 'ended', problem });
          return;
        }
      }
      if (turn !== this.turn) return;
      const wait = 1000 * Math.min(2 ** failures, LONGEST_RETRY_S);
      failures += 1;
      this.tell({ word: 'lost', until: Date.now() + wait });
      await new Promise((resolve) => { this.wake = resolve; setTimeout(resolve, wait); });
    }
  }

  async read(turn, whenLive) {
    this.controller = new AbortController();
    const { signal } = this.controller;
    const response = await send(`feed${this.log && `?log=${encodeURIComponent(this.log)}`}`, null, signal);
    if (!response.ok) throw problemOf(response, await response.json().catch(() => null));
    this.take('open');
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = '';
    for (;;) {
      const timer = setTimeout(() => reader.cancel(), SILENCE_MS);
      const { value, done } = await reader.read().finally(() => clearTimeout(timer));
      if (done || turn !== this.turn) return;
      const events = (rest + value).replaceAll('\r\n', '\n').split('\n\n');
      rest = events.pop();
      for (const each of events) {
        const { name, data } = parse(each);
        if (data === undefined) continue;
        if (name === 'bye' && data.why !== 'stopping') throw new Problem(ENDS[data.why] ?? '', data.why);
        if (name === 'state') whenLive();
        this.take(name, data);
      }
    }
  }
}

function parse(event) {
  const members = { event: 'message', data: '' };
  for (const line of event.split('\n')) {
    const at = line.indexOf(':');
    if (at > 0) members[line.slice(0, at)] = line.slice(at + 1).replace(/^ /, '');
  }
  return { name: members.event, data: members.data ? JSON.parse(members.data) : undefined };
}

// What the page knows of the hub, and how events change it. Pages draw it, and are drawn again when it has changed.

const CALLS = 1000;
const RECORDS = 1000;

export const model = {
  overview: null,
  calls: [], // the newest first
  more: 0, // calls in the last events that were only counted
  log: { name: '', records: [], lost: 0 },
  link: { word: 'connecting' },
};

let draw = () => {};
let isDue = false;
let members = {};

// Loads once more what the page that is shown has asked for.
export let again = () => {};

export function drawBy(drawing, loading) {
  [draw, again] = [drawing, loading];
}

// Draw once more, soon; any number of changes at once are one drawing.
export function redraw() {
  if (isDue) return;
  isDue = true;
  requestAnimationFrame(() => {
    isDue = false;
    draw();
  });
}

// Take an event of the feed; returns what those who do not see the page should hear.
export function take(name, data) {
  const said = { open: takeOpen, state: takeState, tick: takeTick, calls: takeCalls, log: takeLog }[name]?.(data);
  redraw();
  return said ?? '';
}

function takeOpen() {
  beginLog(model.log.name); // a stream begins with the last records
}

// Members by name: all of them at first, then those that have changed.
function takeState(event) {
  members = {};
  takeTick(event);
}

function takeTick({ at, set, gone }) {
  const said = [];
  const before = new Map(model.overview?.servers.map((row) => [row.name, row.word]));
  Object.assign(members, set);
  for (const name of gone) delete members[name];
  const servers = Object.keys(members).filter((name) => name.startsWith('server/')).map((name) => members[name]);
  for (const row of before.size ? servers : []) if (before.get(row.name) !== row.word) said.push(`${row.name}: ${row.word}.`);
  for (const name of before.keys()) if (!members[`server/${name}`]) said.push(`${name} is gone.`);
  for (const item of model.overview ? members.inbox.items : []) {
    if (!itemOf(item.kind, item.id)) said.push(`A decision waits: ${item.text}`);
  }
  model.overview = { ...members, at, servers };
  model.more = Date.now() - model.moreAt > 2000 ? 0 : model.more;
  return said.join(' ');
}

// What waits under this id; undefined: it does not, or not any more.
export const itemOf = (kind, id) => model.overview.inbox.items.find((item) => item.kind === kind && item.id === id);

function takeCalls({ calls, more }) {
  const known = new Set(calls.map((call) => call.ref)); // a stream begins with the last ones
  model.calls = [...calls.toReversed(), ...model.calls.filter((call) => !known.has(call.ref))].slice(0, CALLS);
  [model.more, model.moreAt] = [more, Date.now()];
}

function takeLog({ records, lost }) {
  model.log.records = [...model.log.records, ...records].slice(-RECORDS);
  model.log.lost += lost ?? 0;
}

// Another page is shown, which follows the log of `name`.
export function beginPage(name) {
  if (name !== model.log.name) beginLog(name);
}

function beginLog(name) {
  model.log = { name, records: [], lost: 0 };
}

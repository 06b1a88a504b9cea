// What the hub and its servers write, live: of all, of the hub, or of one server.

import { h } from './dom.js';
import { model, redraw } from './model.js';
import { filter, has, link, wanted } from './parts.js';
import { count, when } from './words.js';

const SHOWN = 400;
const LOOKS = { error: '.loud', critical: '.loud', alert: '.loud', emergency: '.loud', warning: '.noted', exit: '.noted' }; // by the word
let paused = null;

export const log = {
  title: () => 'Log',
  follows: () => '*',
  view: () => logOf(),
};

// The records of whoever is followed, the newest first: new ones move nothing that is being read below.
export function logOf() {
  const { records, lost } = model.log;
  const found = (paused ?? records).filter((each) => has(`${each.name} ${wordOf(each)} ${each.ref ?? ''} ${each.text}`, wanted()));
  const pause = () => {
    paused = paused ? null : records;
    redraw();
  };
  return [
    h('div.tools', {}, filter(),
      h('button', { type: 'button', click: pause, 'aria-pressed': String(paused !== null) }, paused ? 'Go on' : 'Pause')),
    lost > 0 && h('p.more', {}, `${count(lost)} lines came faster than this page reads; \`hubd logs\` has them`),
    found.length ? logLines(found.slice(-SHOWN).toReversed()) : h('p.empty', {}, records.length ? 'No line is like that.' : 'Nothing was written yet.'),
  ];
}

export function forgetPause() {
  paused = null;
}

const wordOf = (record) => record.level || record.kind;

export const logLines = (records) => h('ol.log', {}, records.map((record) => {
  const word = wordOf(record);
  return h(`li${LOOKS[word] ?? ''}`, {}, h('span.at', {}, when(record.at)), h('span.name', {}, record.name), h('span.kind', {}, word),
    h('span.text', {}, record.text, record.ref && [' ', link(record.ref, 'call', record.ref)]));
}));

// Parts that pages are made of: marks of states, sparklines, tables, facts, dialogs.

import { h, plain, render } from './dom.js';
import { redraw } from './model.js';
import { count } from './words.js';

const SHAPES = {
  good: 'M8 3a5 5 0 1 0 0 10A5 5 0 0 0 8 3z',
  busy: 'M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zm0 1.8v8.4a4.2 4.2 0 0 1 0-8.4z',
  warning: 'M8 1.5 15.2 14H.8zM7.2 6v4h1.6V6zm0 5v1.6h1.6V11z',
  bad: 'M2 3.4 3.4 2 8 6.6 12.6 2 14 3.4 9.4 8l4.6 4.6-1.4 1.4L8 9.4 3.4 14 2 12.6 6.6 8z',
  off: 'M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zm0 1.8a4.2 4.2 0 1 1 0 8.4 4.2 4.2 0 0 1 0-8.4z',
};

// The hub's own sentences, with the commands in them as code.
export const sentence = (text) => String(text).split('`').map((part, at) => at % 2 ? h('code', {}, part) : part);

// A word with the shape and the colour of how well something is.
export const state = (health, word) => h(`span.state.${health in SHAPES ? health : 'off'}`, {}, shape(health), h('span', {}, typeof word === 'string' ? sentence(word) : word));

const shape = (health) => h('svg:svg', { class: 'shape', viewBox: '0 0 16 16', 'aria-hidden': 'true' },
  h('svg:path', { d: SHAPES[health] ?? SHAPES.off, 'fill-rule': 'evenodd' }));

// Numbers as bars, the newest at the right, those that failed at their feet.
export function spark(values, label, failed = []) {
  const most = Math.max(...values, 1);
  const bars = (numbers) => numbers.map((each, at) => each ? `M${at} 20V${20 - Math.max(1.5, 20 * each / most)}h.75V20z` : '').join('');
  return h('svg:svg', { class: 'spark', viewBox: `0 0 ${values.length} 20.5`, preserveAspectRatio: 'none', role: 'img', 'aria-label': label },
    h('svg:path', { class: 'base', d: `M0 20h${values.length}v.5H0z` }), h('svg:path', { class: 'bars', d: bars(values) }),
    failed.some(Boolean) && h('svg:path', { class: 'failed', d: bars(failed) }));
}

export function sparkOfCalls(values, failed) {
  const sum = values.reduce((a, b) => a + b, 0);
  return spark(values, `Calls in the last 5 minutes: ${count(sum)}`, failed);
}

const sorted = new Map(); // by the id of the table: [column, is it upwards]

// A table whose rows become blocks of named values where there is little room. A column: `head`, `cell(row)`, and as
// wanted `by(row)` (it can be sorted by that), `number`, `least` (goes first where there is less room: 1, 2, 3).
export function table(id, caption, columns, rows, { key, empty, filler } = {}) {
  const [by, isUp] = sorted.get(id) ?? [];
  const column = columns.find((each) => each.head === by);
  const ordered = column ? rows.toSorted(byValue(column.by, isUp)) : rows;
  const cells = (row) => columns.map((each, at) => h(at ? 'td' : 'th', {
    ...roleOf(at), class: classOf(each), 'data-head': each.head,
  }, h('span', {}, each.cell(row))));
  return rows.length || filler ? h(`table.${id.split(' ')[0]}`, { role: 'table' }, h('caption.unseen', {}, caption),
    h('thead', { role: 'rowgroup' }, h('tr', { role: 'row' }, columns.map((each) => head(id, each)))),
    h('tbody', { role: 'rowgroup' }, filler, ordered.map((row) => h('tr', { role: 'row', key: key?.(row) }, cells(row)))),
  ) : h('p.empty', {}, empty);
}

const roleOf = (at) => at ? { role: 'cell' } : { role: 'rowheader', scope: 'row' };
const classOf = ({ number, least }) => [number && 'number', least && `least${least}`].filter(Boolean).join(' ') || undefined;

function byValue(value, isUp) {
  const isLess = (a, b) => (a ?? -Infinity) < (b ?? -Infinity);
  return (a, b) => (isUp ? 1 : -1) * (isLess(value(a), value(b)) ? -1 : isLess(value(b), value(a)) ? 1 : 0);
}

function head(id, column) {
  const [by, isUp] = sorted.get(id) ?? [];
  const isBy = by === column.head;
  const direction = !isBy ? undefined : isUp ? 'ascending' : 'descending';
  const attributes = { role: 'columnheader', scope: 'col', class: classOf(column), 'aria-sort': direction };
  if (!column.by) return h('th', attributes, column.head);
  const sort = () => {
    if (isBy && isUp === Boolean(column.number)) sorted.delete(id);
    else sorted.set(id, [column.head, isBy ? !isUp : !column.number]);
    redraw();
  };
  return h('th', attributes, h('button.sort', { type: 'button', click: sort }, column.head, isBy && h('span', { 'aria-hidden': 'true' }, isUp ? ' ↑' : ' ↓')));
}

// Names and values, without those that nobody knows.
export const facts = (...pairs) => h('dl.facts', {}, pairs.filter(([, value]) => value)
  .map(([name, value]) => h('div', {}, h('dt', {}, name), h('dd', {}, value))));

// One number that people look at: its name, itself, and what explains it.
export const tile = (name, value, ...rest) => h('div.tile', {}, h('p.label', {}, name), h('p.value', {}, value), rest);

export const section = (title, ...rest) => h('section', { 'aria-label': title }, h('h2', {}, title), rest);

export const button = (text, click, look = '') => h(`button${look && `.${look}`}`, { type: 'button', click }, text);

export const link = (text, ...path) => h('a', { href: to(...path) }, text);

export const to = (...path) => `#/${path.map(encodeURIComponent).join('/')}`;

const filters = new Map(); // what was typed, by page

// What this page is narrowed to; `given`: before anything was typed.
export const wanted = (given = '') => filters.get(location.hash) ?? given;

// A field that narrows what is shown below; `/` goes to it.
export const filter = (given) => h('label.filter', {}, h('span', {}, 'Filter'), h('input', { type: 'search', id: 'filter', value: wanted(given),
  spellcheck: 'false', autocomplete: 'off', input: (event) => { filters.set(location.hash, event.target.value); redraw(); } }));

// All words of `wanted` are in `text`.
export const has = (text, wanted) => wanted.toLowerCase().split(/\s+/).every((word) => text.toLowerCase().includes(word));

const dialog = document.getElementById('dialog');
let tell = () => {};
dialog.addEventListener('close', () => dialog.open || tell()); // it comes a little later, maybe with the next question open

// Ask a person a question; resolves to whether the answer was `yes`. "" for `yes`: there is nothing to decide.
export function ask(title, body, yes, no = 'Cancel') {
  tell(); // of the one before
  const close = (value) => () => dialog.close(value);
  render(dialog, h('h2', { id: 'dialog-title' }, title), h('div', {}, body),
    h('p.buttons', {}, h('button', { type: 'button', autofocus: true, click: close('') }, no), yes && button(yes, close('yes'), 'strong')));
  dialog.returnValue = '';
  dialog.showModal();
  return new Promise((resolve) => { tell = () => resolve(dialog.returnValue === 'yes'); });
}

let noticed = 0;

// Say something that a person has to read: above the page, until it is closed or another page is looked at.
export function notify(text, health = 'good') {
  noticed = Date.now();
  render(document.getElementById('notice'), text && h('div.notice', {}, state(health, text), button('Close', () => notify(''))));
}

// Another page is shown; what has just been said stays: it may have led there.
export const forgetNotice = () => Date.now() - noticed > 1000 && notify('');

// Say it to those only who do not see the page.
export function say(text) {
  if (text) document.getElementById('said').textContent = plain(text);
}

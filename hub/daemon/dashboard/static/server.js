// One server: how it goes, what it offers, what it writes, what is set for it.

import { act } from './actions.js';
import { request } from './api.js';
import { callsOf } from './calls.js';
import { settingTable } from './config.js';
import { changeLines } from './inbox.js';
import { h } from './dom.js';
import { logOf } from './log.js';
import { model } from './model.js';
import { failures, slow } from './overview.js';
import { button, facts, filter, has, link, sentence, sparkOfCalls, state, table, tile, to, wanted } from './parts.js';
import { about, count, counted, duration, money, percent, size, took } from './words.js';

const UNUSED_DAYS = 30;

export const server = {
  title: ([name]) => name,
  async load([name]) {
    const { lists, ...rest } = await request(`server?name=${encodeURIComponent(name)}`);
    const read = (kind) => (lists[kind] ?? []).map(readEntry);
    return { ...rest, tools: read('tools'), prompts: read('prompts'), resources: read('resources'), templates: read('resourceTemplates') };
  },
  every: 15_000,
  follows: ([name, tab]) => tab === 'log' ? name : '',
  view([name, tab = 'tools', words], data) {
    const row = model.overview.servers.find((each) => each.name === name);
    if (!row) return h('p.empty', {}, 'This server is gone.');
    return [
      h('div.lead', {}, state(row.health, row.word), row.why && !data.status.pins.includes(row.why) && !hasTrouble(row, data.status) && h('span.why', {}, sentence(row.why)), buttons(row)),
      hasTrouble(row, data.status) && trouble(data.status, data.hint), numbers(row, data.status), tabs(name, tab, data),
      h('div', { key: tab }, TABS[tab]?.[1](data, row, words) ?? h('p.empty', {}, 'There is no such page.')),
    ];
  },
};

const text = (value) => typeof value === 'string' ? value : '';

// An entry of a list, with what its server wrote of it: nobody has checked that.
function readEntry({ definition, ...known }) {
  const { name, title, description, mimeType } = definition;
  return { ...known, definition, label: text(title) || text(name), description: text(description), mime: text(mimeType) };
}

function buttons({ name, state: is }) {
  const run = (action, verb, what) => () => act(action, { name }, `${verb} ${name}?`, what, verb);
  return h('p.buttons', {},
    is !== 'disabled' && button('Restart', run('restart', 'Restart', 'Calls that run there now may fail.')),
    is === 'disabled' ? button('Enable', run('enable', 'Enable', 'This edits the configuration file, and starts it.'))
      : button('Disable', run('disable', 'Disable', 'This edits the configuration file. Hosts lose its tools at once.')));
}

const hasTrouble = (row, status) => status?.last_error && (status.state !== 'connected' || row.health !== 'good');

// The reason why it is not well, in the words of the server itself, and what may mend it.
function trouble(status, hint) {
  const [first, ...said] = status.last_error.split('\n');
  const next = status.next_attempt_s === null || status.next_attempt_s === undefined ? ''
    : ` The next attempt is in ${duration(status.next_attempt_s)}.`;
  const ago = status.last_error_ago_s === null || status.last_error_ago_s === undefined ? '' : ` (${duration(status.last_error_ago_s)} ago)`;
  return h('section.panel', { 'aria-label': 'Last error' }, h('p', {}, `${first}${ago}.${next}`), said.length > 0 && h('pre', {}, said.join('\n')), hint && h('p', {}, sentence(hint)));
}

function numbers(row, status) {
  const { limits } = model.overview;
  const { last_error: last } = row;
  return [h('div.tiles', {},
    tile('Calls', count(row.calls), sparkOfCalls(row.spark), h('p', {}, 'since the start; last 5 minutes')),
    tile('Failed', failures(row, limits), h('p', {}, last ? [`${last.error_type} of ${last.name}, ${duration(model.overview.at - last.at)} ago: `, link(last.ref, 'call', last.ref)] : counted(row.failed, 'call'))),
    tile('Time of a call', [slow(row), h('small', {}, ' p95')], h('p', {}, `median ${took(row.p50_s)}, p99 ${took(row.p99_s)}; last 128 calls of each tool`)),
    tile('Running', count(row.busy), h('p', {}, row.waiting ? `${counted(row.waiting, 'call')} wait for their turn` : [counted(status.sessions ?? 0, 'session'), row.mode].filter(Boolean).join(', ')))),
  facts(['Since', row.since && duration(model.overview.at - row.since)], ['Revision', row.version], ['Via', row.transport], ['Process', row.pid], ['Tokens', row.tokens && about(row.tokens)],
    ['Restarts', status?.restarts > 0 && count(status.restarts)], ['Cost', row.cost > 0 && money(row.cost)], ['Definitions', status.pins?.length > 0 && state('warning', status.pins.join('; '))]),
  ];
}

const TABS = {
  tools: ['Tools', (data) => toolList(data)],
  calls: ['Calls', (data, row, words) => callsOf(row.name, words)],
  log: ['Log', () => logOf()],
  prompts: ['Prompts', ({ prompts }) => promptTable(prompts)],
  resources: ['Resources', (data) => resourceTables(data)],
  settings: ['Settings', ({ settings }) => settingTable('settings', settings)],
};

function tabs(name, tab, data) {
  const counts = { tools: data.tools.length, prompts: data.prompts.length, resources: data.resources.length + data.templates.length };
  return h('nav.tabs', { 'aria-label': name }, Object.entries(TABS).map(([each, [title]]) => h('a', { href: to('server', name, each), 'aria-current': each === tab && 'page' },
    title, counts[each] !== undefined && h('span.count', {}, counts[each]))));
}

function toolList({ tools, pins }) {
  const gone = pins.changes.filter((each) => each.change === 'gone').map((each) => each.item);
  const found = tools.filter((tool) => has(`${tool.name} ${tool.label} ${tool.description} ${tool.change} ${isUnused(tool) ? 'unused' : ''}`, wanted()));
  return [
    h('div.tools', {}, filter(), h('p.hint', {}, 'Words; ', h('code', {}, 'unused'), ', ', h('code', {}, 'changed'), '.')),
    found.length ? h('ul.items', {}, found.map((tool) => h('li', { key: tool.name }, h('details', {}, summary(tool), details(tool, pins)))))
      : h('p.empty', {}, tools.length ? 'No tool is like that.' : 'It offers no tools, or was never connected.'),
    gone.length > 0 && h('p.hint', {}, `Approved, and not listed any more: ${gone.join(', ')}`),
  ];
}

const isUnused = (tool) => !tool.uses && !tool.calls;

function summary(tool) {
  const badge = tool.held ? state('bad', 'held back') : tool.change ? state('warning', tool.change) : null;
  return h('summary', {}, h('span.code', {}, tool.name), badge,
    h('span.numbers', {}, h('span', {}, `${about(tool.tokens)} tokens`),
      h('span', {}, isUnused(tool) ? `unused ${UNUSED_DAYS} days` : counted(tool.calls, 'call')), h('span', {}, tool.calls ? `p95 ${took(tool.p95_s)}` : '')),
    tool.description && h('span.words', {}, tool.description.split('\n')[0]));
}

function details(tool, pins) {
  const { inputSchema: schema, annotations } = tool.definition;
  const change = pins.changes.find((each) => each.item === `tools/${tool.name}`);
  const hints = Object.entries(annotations ?? {}).filter(([name]) => name.endsWith('Hint')).map(([name, value]) => `${name}: ${value}`);
  return h('div.details', {},
    tool.description.includes('\n') && h('p.pre', {}, tool.description),
    facts(['Hosts call it', h('span.code', {}, tool.visible)], ['It says of itself', hints.join(', ')], ['Failed', tool.failed > 0 && count(tool.failed)],
      ['Last used', tool.last_day], ['Median', tool.calls && took(tool.p50_s)]),
    change?.words?.length > 0 && h('div', {}, h('h2.small', {}, 'Changed since it was approved'), change.words.map((each) => changeLines(each.where, each.old, each.new))),
    h('h2.small', {}, 'Arguments'), argumentTable(tool.name, schema), h('details', {}, h('summary', {}, 'Raw definition'), h('pre', {}, JSON.stringify(tool.definition, null, 2))));
}

function argumentTable(name, schema) {
  const needed = new Set(Array.isArray(schema?.required) ? schema.required : []);
  return table(`arguments ${name}`, `Arguments of ${name}`, [
    { head: 'Name', cell: ([each]) => h('span.code', {}, each) },
    { head: 'Type', cell: ([, about_]) => typeOf(about_) },
    { head: 'Needed', cell: ([each]) => needed.has(each) ? 'yes' : 'no' },
    { head: 'Meaning', cell: ([, about_]) => typeof about_?.description === 'string' ? about_.description : '' },
  ], Object.entries(schema?.properties ?? {}), { empty: 'It takes none.' });
}

function typeOf(schema) {
  if (Array.isArray(schema?.enum)) return schema.enum.map((each) => JSON.stringify(each)).join(' | ');
  const type = Array.isArray(schema?.type) ? schema.type.join(' | ') : schema?.type;
  return type === 'array' && schema.items?.type ? `array of ${schema.items.type}` : type ?? 'any';
}

const promptTable = (prompts) => table('prompts', 'Prompts', [
  { head: 'Prompt', cell: (prompt) => h('span.code', {}, prompt.name) },
  { head: 'Meaning', cell: (prompt) => prompt.description || prompt.label },
  { head: 'Arguments', cell: ({ definition: { arguments: all } }) => Array.isArray(all) && all.map((each) => `${each?.name}${each?.required ? '' : '?'}`).join(', ') },
  { head: 'Calls', cell: (prompt) => count(prompt.calls), number: true },
], prompts, { empty: 'It offers no prompts.' });

const resourceTables = ({ resources, templates }) => [['Resources', resources], ['Templates', templates]].map(([title, all]) => h('section', {}, h('h2', {}, title),
  table(title, title, [
    { head: 'URI', cell: (each) => h('span.code', {}, each.name) },
    { head: 'Name', cell: (each) => each.label },
    { head: 'Type', cell: (each) => each.mime, least: 1 },
    { head: 'Meaning', cell: (each) => each.description, least: 2 },
  ], all, { empty: 'None.' })));

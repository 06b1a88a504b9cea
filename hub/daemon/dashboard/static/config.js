// What is kept in the cache, and the configuration in effect with its mistakes.

import { act } from './actions.js';
import { request } from './api.js';
import { h } from './dom.js';
import { model } from './model.js';
import { button, facts, filter, has, section, state, table, tile, wanted } from './parts.js';
import { count, counted, duration, percent, size, when } from './words.js';

export const cache = {
  title: () => 'Cache',
  load: () => request('cache'),
  every: 3000,
  view(args, data) {
    if (!data.enabled) return h('p.empty', {}, 'The cache is off; `enabled = true` below [cache] in hubd.toml turns it on.');
    const { counts, store } = data;
    const clear = (name) => () => act('clear_cache', { name }, `Clear the cache of ${name ?? 'all servers'}?`, 'The next reads ask the servers again.', 'Clear');
    const reads = readsOf(counts);
    const causes = Object.entries(data.invalidations).filter(([, number]) => number);
    return [
      h('p.buttons', {}, button('Clear all', clear(null))),
      h('div.tiles', {},
        tile('Kept', count(data.entries), h('p', {}, `${size(data.bytes)} of ${size(data.max_bytes)}`)),
        tile('From memory', reads ? percent(counts.hits / reads) : '–', h('p', {}, `of ${counted(reads, 'read')}`)),
        tile('Shared a fetch', count(counts.coalesced), h('p', {}, `${count(data.flights)} under way`)),
        tile('Stale', count(counts.stale), h('p', {}, `answers of old copies; ${count(data.evicted)} made room`))),
      section('Servers', table('cache', 'The cache by server', [
        { head: 'Server', cell: (row) => row.name, by: (row) => row.name },
        { head: 'Kept', cell: (row) => count(row.entries), by: (row) => row.entries, number: true },
        { head: 'Size', cell: (row) => size(row.bytes), by: (row) => row.bytes, number: true },
        { head: 'Reads', cell: (row) => count(readsOf(row.counts)), by: (row) => readsOf(row.counts), number: true },
        { head: 'Hits', cell: (row) => count(row.counts.hits), by: (row) => row.counts.hits, number: true },
        { head: 'Misses', cell: (row) => count(row.counts.misses), by: (row) => row.counts.misses, number: true },
        { head: 'Too large', cell: (row) => count(row.counts.refused), number: true, least: 2 },
        { head: 'Clear', cell: (row) => button(`Clear ${row.name}`, clear(row.name)) },
      ], data.upstreams, { key: (row) => row.name, empty: 'Nothing was read yet.' })),
      causes.length > 0 && section('Dropped because', facts(...causes.map(([cause, number]) => [cause, count(number)]))),
      store && section('Store', facts(['State', state(store.state === 'connected' ? 'good' : 'bad', store.state)], ['For', duration(store.since_s)], ['Because', store.reason],
        ['Hubs', count(store.hubs)], ['Late answers', count(store.late)], ['Not stored', count(store.dropped)])),
    ];
  },
};

const readsOf = (counts) => counts.hits + counts.misses + counts.coalesced;

export const config = {
  title: () => 'Configuration',
  load: () => request('config'),
  every: 5000,
  view(args, data) {
    const { status } = data;
    const reload = () => act('reload', {}, 'Read the configuration again?', 'It is read by itself when a file changes, too.', 'Reload');
    return [
      h('div.lead', {}, status.problem ? state('bad', 'The configuration before stays in effect until this is right.') : state('good', `In effect since ${when(new Date(status.loaded_at) / 1000)}`),
        h('p.buttons', {}, button('Reload', reload))),
      status.problem && h('pre.panel', {}, status.problems?.length ? status.problems.join('\n') : status.problem),
      status.pending?.length > 0 && h('p', {}, state('warning', `Takes effect at the next start: ${status.pending.join(', ')}`)),
      status.warnings?.map((text) => h('p', {}, state('warning', text))),
      facts(['Files', status.files?.map((file) => h('div.code', {}, file))], ['Address', h('span.code', {}, model.overview.url)]),
      h('div.tools', {}, filter()),
      section('Settings', settingTable('config', data.settings)),
      data.servers.map((each) => section(each.name, settingTable(`config ${each.name}`, each.settings))),
    ];
  },
};

const shown = (value) => typeof value === 'string' ? value : JSON.stringify(value);

export const settingTable = (id, settings) => table(id, 'Settings', [
  { head: 'Key', cell: (each) => h('span.code', {}, each.key) },
  { head: 'Value', cell: (each) => h('span.code', {}, shown(each.value)) },
  { head: 'From', cell: (each) => each.file ? h('span.code', {}, each.file, each.line ? h('span.number', {}, `:${each.line}`) : '') : each.layer },
], settings.filter((each) => has(`${each.key} ${shown(each.value)}`, wanted())), { key: (each) => each.key, empty: 'Nothing is set here.' });

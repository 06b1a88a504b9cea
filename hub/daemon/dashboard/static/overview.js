// Overview: what needs somebody, how the whole is going, each server in a line, what is running.

import { h } from './dom.js';
import { model } from './model.js';
import { facts, link, section, sentence, sparkOfCalls, state, table, tile, to } from './parts.js';
import { about, count, counted, duration, money, percent, rate, took } from './words.js';

const MANY_TOKENS = 20_000;
const ORDER = ['bad', 'warning', 'busy', 'good', 'off'];

export const overview = {
  title: () => 'Overview',
  view() {
    const { servers, hosts, running, totals } = model.overview;
    return [needs(), numbers(totals), section(counted(servers.length, 'server'), serverTable(servers)),
      section('Running now', runningTable(running)),
      section(counted(hosts.length, 'host'), hosts.length
        ? h('p', {}, [...new Set(hosts.map((host) => host.label))].join(', '), ' ', link('How each is served', 'hosts'))
        : h('p.empty', {}, 'No host is attached. `hubd install` puts the hub into yours.'))];
  },
};

// What somebody should look at, the worst first.
function needs() {
  const { servers, inbox, reload, warnings, limits } = model.overview;
  const waiting = inbox.items.length;
  const found = [];
  if (reload.problem) found.push(['bad', 'Configuration', reload.problem.split('\n')[0], link('Show', 'config')]);
  for (const row of servers) {
    if (isUnwell(row)) found.push([row.health, row.name, row.state === 'connected' ? row.why : [row.word, row.why].filter(Boolean).join(': '), whereOf(row, limits)]);
  }
  if (waiting) found.push(['warning', 'Inbox', `${counted(waiting, 'decision')} ${waiting === 1 ? 'waits' : 'wait'} for you`, link('Decide', 'inbox')]);
  for (const text of warnings ?? []) found.push(['warning', 'Hub', text, null]);
  found.sort(([a], [b]) => ORDER.indexOf(a) - ORDER.indexOf(b));
  if (!found.length) return h('p.well', {}, state('good', servers.length ? 'Everything is well.' : 'Ready; no server is configured yet: `hubd add`.'));
  return h('section', { 'aria-label': 'What needs you' }, h('ul.needs', {}, found.map(([health, name, text, where]) => h('li', { key: `${name} ${text}` },
    h('span.what', {}, state(health, name)), h('span.why', {}, sentence(text)), where))));
}

const isUnwell = (row) => row.health === 'bad' || row.health === 'warning';

// What shows more of it: its log, or its calls, of which those that are meant.
function whereOf(row, limits) {
  if (row.state !== 'connected') return link('Log', 'server', row.name, 'log');
  const slow = `>${1000 * (row.transport === 'stdio' ? limits.p95_local_s : limits.p95_remote_s)}ms`;
  const words = row.slow ? [slow] : row.failed_ratio > limits.failed_ratio ? ['failed'] : [];
  return link('Calls', 'server', row.name, 'calls', ...words);
}

function numbers(totals) {
  const [calls, failed] = model.overview.seconds;
  return h('div.tiles', {},
    tile('Calls', [rate(totals.rate), h('small', {}, ' per second')], sparkOfCalls(calls, failed), h('p', {}, `last 5 minutes; ${count(totals.calls)} since the start`)),
    tile('Failed', percent(totals.failed_ratio), h('p', {}, `in the last 5 minutes; ${count(totals.failed)} since the start`)),
    tile('Time of a call', [took(totals.p50_s), h('small', {}, ' median')], h('p', {}, `p95 ${took(totals.p95_s)}, p99 ${took(totals.p99_s)}; last 128 calls of each tool`)),
    tile('Tools', count(totals.tools), h('p', {}, `${about(totals.tokens)} tokens of a model's context`)),
    totals.cost > 0 && tile('Cost', money(totals.cost), h('p', {}, 'since the start, by the prices of the configuration')));
}

function serverTable(servers) {
  const { limits } = model.overview;
  const rows = servers.toSorted((a, b) => ORDER.indexOf(a.health) - ORDER.indexOf(b.health) || (a.name < b.name ? -1 : 1));
  const hasCost = servers.some((row) => row.cost > 0);
  return table('servers', 'Servers', [
    { head: 'Server', cell: (row) => link(row.name, 'server', row.name), by: (row) => row.name },
    { head: 'State', cell: (row) => state(row.health, row.word), by: (row) => -ORDER.indexOf(row.health) },
    { head: 'Last 5 min', cell: (row) => sparkOfCalls(row.spark), least: 2 },
    { head: 'Calls', cell: (row) => count(row.calls), by: (row) => row.calls, number: true },
    { head: 'Failed', cell: (row) => failures(row, limits), by: (row) => row.failed_ratio, number: true },
    { head: 'p50', cell: (row) => took(row.p50_s), by: (row) => row.p50_s, number: true, least: 3 },
    { head: 'p95', cell: (row) => slow(row), by: (row) => row.p95_s, number: true },
    { head: 'Busy', cell: (row) => count(row.busy) + (row.waiting ? ` +${count(row.waiting)}` : ''), by: (row) => row.busy, number: true, least: 2 },
    { head: 'Tools', cell: (row) => count(row.tools), by: (row) => row.tools, number: true, least: 1 },
    { head: 'Tokens', cell: (row) => about(row.tokens), by: (row) => row.tokens, number: true, least: 1 },
    hasCost && { head: 'Cost', cell: (row) => money(row.cost), by: (row) => row.cost, number: true },
  ].filter(Boolean), rows, { key: (row) => row.name, empty: 'No server yet: `hubd add` adds one, `hubd import` takes over those of your hosts.' });
}

export const slow = (row) => row.slow ? state('warning', `${took(row.p95_s)} slow`) : took(row.p95_s);

export const failures = (row, limits) => row.failed_ratio > limits.failed_ratio
  ? state('bad', percent(row.failed_ratio)) : percent(row.failed_ratio);

export function runningTable(running) {
  return table('running', 'Running calls', [
    { head: 'Call', cell: (call) => h('span.code', {}, call.name || call.method) },
    { head: 'Host', cell: (call) => call.host },
    { head: 'For', cell: (call) => took(call.for_s), number: true },
    { head: 'Ref', cell: (call) => link(call.ref, 'call', call.ref), least: 2 },
  ], running, { key: (call) => call.ref, empty: 'Nothing at the moment.' });
}

const hint = ({ label, tools, tokens }) => `${label} sees ${counted(tools, 'tool')}, ${about(tokens)} tokens; fewer: \`hubd profile suggest ${label}\``;

export const hosts = {
  title: () => 'Hosts',
  view() {
    const { hosts: all, running, projects } = model.overview;
    const hasCost = all.some((host) => host.cost > 0);
    const hints = [...new Set(all.filter((host) => host.tokens > MANY_TOKENS).map(hint))];
    return [
      hints.length > 0 && h('ul.needs', {}, hints.map((hint) => h('li', {}, h('span.what', {}, state('warning', 'Large')), h('span.why', {}, sentence(hint))))),
      table('hosts', 'Hosts', [
        { head: 'Host', cell: (host) => host.label, by: (host) => host.label },
        { head: 'Via', cell: (host) => host.transport, by: (host) => host.transport, least: 2 },
        { head: 'Revision', cell: (host) => host.version, by: (host) => host.version, least: 2 },
        { head: 'Profile', cell: (host) => (host.profile ?? 'all') + (host.search ? ', by search' : ''), by: (host) => host.profile },
        { head: 'Tools', cell: (host) => count(host.tools), by: (host) => host.tools, number: true },
        { head: 'Tokens', cell: (host) => about(host.tokens), by: (host) => host.tokens, number: true },
        { head: 'Calls', cell: (host) => count(host.calls), by: (host) => host.calls, number: true },
        { head: 'Running', cell: (host) => count(host.in_flight), by: (host) => host.in_flight, number: true, least: 1 },
        { head: 'Asked', cell: (host) => count(host.asked), by: (host) => host.asked, number: true, least: 1 },
        { head: 'Idle', cell: (host) => duration(host.idle_s), by: (host) => host.idle_s, number: true },
        hasCost && { head: 'Cost', cell: (host) => money(host.cost), by: (host) => host.cost, number: true },
      ].filter(Boolean), all, { empty: 'No host is attached. `hubd install` puts the hub into yours.' }),
      section('Running now', runningTable(running)),
      projects?.length > 0 && section('Projects', projects.map((each) => facts(['Folder', each.root], ['Endpoint', each.endpoint], ['Hosts', count(each.hosts)]))),
    ];
  },
};

// Calls as they end, the newest first; and one call with its log.

import { h } from './dom.js';
import { request } from './api.js';
import { model, redraw } from './model.js';
import { facts, filter, has, link, section, state, table, wanted } from './parts.js';
import { logLines } from './log.js';
import { about, clock, count, counted, duration, money, outcome, size, took, when } from './words.js';

const SHOWN = 200;
let paused = null; // the calls that were there when it was paused

export const calls = {
  title: () => 'Calls',
  view: () => callsOf(null),
};

// The calls of one server, or of all; `words`: those that a link asks for.
export function callsOf(server, words) {
  const all = (paused ?? model.calls).filter((call) => server === null || call.upstream === server);
  const found = all.filter(isLike(wanted(words)));
  const pause = () => {
    paused = paused ? null : model.calls;
    redraw();
  };
  return [
    h('div.tools', {}, filter(words),
      h('button', { type: 'button', click: pause, 'aria-pressed': String(paused !== null) }, paused ? 'Go on' : 'Pause'),
      h('p.hint', {}, 'Words of a host, a call, a result or a ref; ', h('code', {}, 'failed'), '; ', h('code', {}, '>1s'), ' for slow ones.')),
    !paused && model.more > 0 && h('p.more', {}, `+${counted(model.more, 'more call')} in this second, only counted here`),
    callTable(found.slice(0, SHOWN), all.length ? 'No call is like that.' : 'No call has ended yet.'),
    found.length > SHOWN && h('p.hint', {}, `The newest ${SHOWN} of ${count(found.length)}. \`hubd calls\` shows all that are kept.`),
  ];
}

const isLike = (words) => (call) => words.trim().toLowerCase().split(/\s+/).every((word) => {
  const slower = /^>(\d+(?:\.\d+)?)(ms|s)$/.exec(word);
  if (slower) return call.took_s > slower[1] * (slower[2] === 's' ? 1 : 0.001);
  return word === 'failed' ? outcome(call).isFailure : has(`${call.ref} ${call.host} ${call.name} ${call.method} ${outcome(call).text}`, word);
});

function callTable(rows, empty) {
  const hasCost = rows.some((call) => call.cost > 0);
  return table('calls', 'Calls, the newest first', [
    { head: 'Time', cell: (call) => clock(call.at) },
    { head: 'Ref', cell: (call) => link(call.ref, 'call', call.ref) },
    { head: 'Host', cell: (call) => call.host },
    { head: 'Call', cell: (call) => h('span.code', {}, call.name || call.method) },
    { head: 'Took', cell: (call) => took(call.took_s), number: true },
    { head: 'Result', cell: result },
    { head: 'In', cell: (call) => size(call.sent), number: true, least: 2 },
    { head: 'Out', cell: (call) => size(call.size), number: true, least: 2 },
    hasCost && { head: 'Cost', cell: (call) => money(call.cost), number: true, least: 1 },
  ].filter(Boolean), rows, { key: (call) => call.ref, empty });
}

function result(call) {
  const { text, isFailure } = outcome(call);
  return isFailure ? state('bad', text) : text;
}

export const call = {
  title: ([ref]) => `Call ${ref}`,
  load: ([ref]) => request(`call?ref=${encodeURIComponent(ref)}`),
  every: 5000,
  view([ref], data) {
    const { call: one, running, log } = data;
    const name = one?.name ?? running?.name;
    const server = one?.upstream ?? running?.upstream;
    return [
      h('p.lead', {}, h('span.code', {}, name), ' of ', link(server, 'server', server), ' for ', one?.host ?? running?.host),
      one ? facts(['Result', result(one)], ['Waited', took(one.waited_s)], ['First answer', took(one.first_answer_s)], ['Took', took(one.took_s)],
        ['Ended', when(one.at)], ['Method', one.method], ['Carried out', one.outcome && CARRIED_OUT[one.executed]], ['Sent', size(one.sent)],
        ['Result size', `${size(one.size)}${one.tokens ? `, ${about(one.tokens)} tokens` : ''}`], ['Via', one.transport],
        ['Principal', one.principal], ['Cost', one.cost > 0 && money(one.cost)])
        : facts(['Result', state('busy', 'running')], ['For', took(running.for_s)], ['Method', running.method]),
      section('Arguments', one?.arguments ? h('pre', {}, one.arguments)
        : h('p.empty', {}, 'Arguments are not recorded. To record them and results, which say why a tool failed: ', h('code', {}, 'record = ["arguments", "result"]'), ' in ', h('code', {}, `[upstreams.${server}]`), '.')),
      one?.result && section('Result', h('pre', {}, one.result)),
      section('Log', log?.length ? logLines(log) : h('p.empty', {}, `Nothing was logged about ${ref}.`)),
    ];
  },
};

const CARRIED_OUT = { yes: 'yes', no: 'no', unknown: 'nobody knows' };

// What waits for a decision: each item with all that a person must have seen before, and the hash of that goes along.

import { act } from './actions.js';
import { request } from './api.js';
import { h } from './dom.js';
import { itemOf, model, redraw } from './model.js';
import { button, link, state, to } from './parts.js';
import { counted, duration } from './words.js';

const KINDS = { approval: 'Call', pins: 'Changed definitions', project: 'Project', 'sign-in': 'Sign-in', secret: 'Secret' };
const YES = {
  once: ['approve', 'Once', 'This one call.'],
  session: ['approve', 'For this session', 'Calls of it by this host until it goes away.'],
  hour: ['approve', 'For an hour', 'Calls of it by this host for an hour.'],
  always: ['approve', 'Always', 'Calls of it by this host from now on; `hubd approvals revoke` ends that.'],
  approve: ['approve_pins', 'Approve all shown', 'Hosts and their models see these definitions from now on.'],
  trust: ['trust', 'Trust', 'The servers of this project may be started.'],
  sign_in: ['sign_in', 'Begin', 'A page of the authorization server is opened next.'],
};
let page = null; // where to sign in: { id, url }

export const inbox = {
  title: () => 'Inbox',
  view() {
    const { items, questions } = model.overview.inbox;
    return [
      items.length ? h('ul.items', {}, items.map((item) => h('li', { key: `${item.kind} ${item.id}` }, h('a.item', { href: to('inbox', item.kind, item.id) },
        h('span.kind', {}, KINDS[item.kind] ?? item.kind), h('span.words', {}, item.text), h('span.numbers', {}, ages(item)), h('span.decide', {}, 'Decide')))))
        : h('p.well', {}, state('good', 'Nothing waits for you.')),
      questions > 0 && h('p.hint', {}, `${counted(questions, 'question')} of servers ${questions === 1 ? 'waits' : 'wait'} at the hosts that they are for.`),
    ];
  },
};

const isKnown = (seconds) => seconds !== null && seconds !== undefined;
const ages = ({ age_s: age, left_s: left }) => [isKnown(age) && `${duration(age)} ago`, isKnown(left) && `${duration(left)} left`].filter(Boolean).join(', ');

export const item = {
  title: ([kind]) => KINDS[kind] ?? 'Decision',
  load: ([kind, id]) => request(`item?kind=${encodeURIComponent(kind)}&id=${encodeURIComponent(id)}`),
  view([kind, id], data) {
    const waits = itemOf(kind, id);
    return [
      h('p.lead', {}, data.title), !waits && h('p.panel', {}, state('off', 'This waits no more: it was decided elsewhere, or has passed.')),
      data.text && h('pre.question', {}, data.text), data.blocks.map(block),
      waits && decisions(data),
      page?.id === id && h('p.panel', {}, h('a', { href: page.url, target: '_blank', rel: 'noopener noreferrer' }, 'Open the page to sign in'), ' and come back when it says that you are signed in.'),
      data.cli && h('p.hint', {}, 'In a terminal: ', h('code', {}, data.cli)), h('p', {}, link('All that waits', 'inbox')),
    ];
  },
};

function decisions({ kind, id, state: seen, title, offers }) {
  const decide = async (action, verb, explanation, extra) => {
    const done = await act(action, { id, state: seen, ...extra }, `${verb}: ${title}`, explanation, verb);
    if (/^https?:/.test(done?.url ?? '')) page = { id, url: done.url };
    else if (done) location.hash = to('inbox');
    redraw();
  };
  return h('p.buttons', {},
    kind === 'approval' && button('No', () => decide('deny', 'No', 'The call is refused.', {})),
    offers.filter((offer) => YES[offer]).map((offer) => {
      const [action, verb, explanation] = YES[offer];
      return button(verb, () => decide(action, verb, explanation, { approve: { lasting: offer }, approve_pins: { item: '' } }[action] ?? {}), offer === offers[0] ? 'strong' : '');
    }));
}

function block({ kind, text, name, what, old, new: now, held }) {
  if (kind === 'change') return h('div', {}, h('h2', {}, name, held && [' ', state('bad', 'held back')]), changeLines(what, old, now));
  if (kind === 'warning') return h('p', {}, state('warning', text));
  return kind === 'code' ? h('pre', {}, text) : h('p.pre', {}, text);
}

// What was and what is, as lines that begin with their sign.
export const changeLines = (what, old, now) => h('div.change', {}, what && h('p.hint', {}, what), lines('del', '−', old), lines('ins', '+', now));

const lines = (name, sign, text) => text !== null && text !== undefined
  && h(name, {}, text.split('\n').map((line) => h('span', {}, h('span.sign', {}, sign), line)));

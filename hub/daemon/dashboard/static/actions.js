// What a person may do here: each asks first, with the name in the question, and says what came of it.

import { request } from './api.js';
import { again } from './model.js';
import { ask, notify } from './parts.js';

// Ask `question`, have it done, say the outcome. Returns the answer of the hub; null: it was not done.
export async function act(action, body, question, explanation, yes) {
  if (!await ask(question, explanation, yes)) return null;
  let done = null;
  try {
    done = await request(`do/${action}`, body);
    notify(done.problem ?? [done.text, ...(done.warnings ?? [])].join('. '), done.problem ? 'bad' : 'good');
  } catch (problem) {
    notify(problem.message, problem.kind === 'moved' ? 'warning' : 'bad');
  }
  if (!done || !body.state) again(); // what was decided is gone, and not to be loaded once more
  return done;
}
